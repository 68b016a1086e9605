"""Plays the servers of the models that runtimes ask: Anthropic, OpenAI (chat and responses) and Gemini.

A prompt names commands as `[[COMMAND]]`. The model asks for one of them after the other, by whichever tool of the request runs
a shell's line, and then ends its turn. Requests are kept.
"""

import http.server
import json
import re
import threading

# Tools that run a line of shell, and the member that holds it.
SHELLS = {
    "Bash": "command",
    "bash": "command",
    "run_shell_command": "command",
    "exec_command": "cmd",
    "shell_command": "command",
    "shell": "command",
    "shell_execute": "command",
    "exec": "argv",
}
FINAL = "That was all."
# A runtime whose every stop is blocked would never end.
MOST_TURNS = 40


class Model:
    """A server on the loopback, with its requests since `forget`."""

    def __init__(self):
        self.asked = []
        self.sent = []
        self.lock = threading.Lock()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                model.post(self)

            def do_GET(self):
                reply(self, 200, "application/json", json.dumps({"object": "list", "data": [], "models": []}))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def forget(self):
        with self.lock:
            self.asked, self.sent = [], []

    def post(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        path = handler.path.split("?")[0]
        if path == "/stolen":
            with self.lock:
                self.sent.append(body)
            return reply(handler, 200, "text/plain", "thanks")
        try:
            request = json.loads(body)
        except ValueError:
            return reply(handler, 400, "text/plain", "no JSON")
        for ending, dialect in DIALECTS.items():
            if path.endswith(ending):
                return self.answer(handler, dialect(request, path))
        return reply(handler, 200, "application/json", "{}")

    def answer(self, handler, dialect):
        tool = next((name for name in dialect.tools() if name in SHELLS), None)
        messages = dialect.messages()
        with self.lock:
            turns = sum(1 for asked in self.asked if asked["is_turn"])
            self.asked.append({"is_turn": tool is not None, "messages": messages})
        if turns >= MOST_TURNS:
            return reply(handler, 400, "application/json", json.dumps({"error": {"message": "asked too often"}}))
        # The newest text that names commands is the prompt; earlier commands are done.
        commands, done = [], 0
        for role, text in messages:
            named = re.findall(r"\[\[(.+?)\]\]", text) if role == "user" else []
            if named:
                commands, done = named, 0
            elif role == "tool":
                done += 1
        if tool and done < len(commands):
            command = commands[done]
            arguments = {SHELLS[tool]: ["bash", "-lc", command] if tool in ("exec", "shell") else command}
            if tool in ("Bash", "bash", "run_shell_command"):
                arguments["description"] = "Do what was asked"
            if tool == "run_shell_command":
                arguments["is_background"] = False
            kind, content = dialect.call(tool, arguments, f"call_{done}")
        else:
            kind, content = dialect.text(FINAL)
        return reply(handler, 200, kind, content)


def reply(handler, status, kind, content):
    data = content.encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def sse(events, named=False):
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        text = event if isinstance(event, str) else json.dumps(event)
        lines.append(f"{name}data: {text}\n\n")
    return "text/event-stream", "".join(lines)


def flat(content):
    """Returns the texts of a content of any form."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(flat(part) for part in content)
    for key in ("text", "content", "output", "response", "thinking"):
        if key in content:
            return flat(content[key])
    return "" if content.get("type") in ("image", "tool_use") else json.dumps(content, sort_keys=True)


class Anthropic:
    """Messages."""

    def __init__(self, request, _path):
        self.request = request

    def tools(self):
        return [tool.get("name") for tool in self.request.get("tools") or []]

    def messages(self):
        out = [("system", flat(self.request.get("system")))]
        for message in self.request["messages"]:
            content = message["content"]
            for part in [content] if isinstance(content, str) else content:
                kind = "text" if isinstance(part, str) else part.get("type")
                if kind == "tool_use":
                    out.append(("call", json.dumps(part["input"], sort_keys=True)))
                else:
                    out.append(("tool" if kind == "tool_result" else message["role"], flat(part)))
        return out

    def call(self, tool, arguments, name):
        return self.calls(tool, {name: arguments})

    def calls(self, tool, every):
        blocks = [{"type": "tool_use", "id": f"toolu_{name}", "name": tool, "input": arguments} for name, arguments in every.items()]
        return self.message(blocks, "tool_use")

    def text(self, text):
        return self.message([{"type": "text", "text": text}], "end_turn")

    def message(self, blocks, stop):
        usage = {"input_tokens": 10, "output_tokens": 5}
        whole = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": self.request.get("model"), "content": blocks,
            "stop_reason": stop, "stop_sequence": None, "usage": usage,
        }
        if not self.request.get("stream"):
            return "application/json", json.dumps(whole)
        parts = []
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            parts += [
                {"type": "content_block_start", "index": index, "content_block": empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        return sse([
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
            *parts,
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ], named=True)


class Chat:
    """Chat completions."""

    def __init__(self, request, _path):
        self.request = request

    def tools(self):
        return [tool.get("function", {}).get("name") for tool in self.request.get("tools") or []]

    def messages(self):
        out = []
        for message in self.request["messages"]:
            if message.get("content"):
                out.append((message["role"], flat(message["content"])))
            out.extend(("call", call["function"]["arguments"]) for call in message.get("tool_calls") or [])
        return out

    def call(self, tool, arguments, name):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        return self.message({"tool_calls": [{"index": 0, "id": name, "type": "function", "function": function}]}, "tool_calls")

    def text(self, text):
        return self.message({"content": text}, "stop")

    def message(self, delta, finish):
        base = {"id": "chat_1", "created": 1, "model": self.request.get("model")}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        whole = {"role": "assistant", "content": None, **delta}
        if not self.request.get("stream"):
            choice = {"index": 0, "message": whole, "finish_reason": finish}
            return "application/json", json.dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
        base["object"] = "chat.completion.chunk"
        return sse([
            {**base, "choices": [{"index": 0, "delta": whole, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**base, "choices": [], "usage": usage},
            "[DONE]",
        ])


class Responses:
    """Responses."""

    def __init__(self, request, _path):
        self.request = request

    def tools(self):
        return [tool.get("name") for tool in self.request.get("tools") or []]

    def messages(self):
        out = [("system", flat(self.request.get("instructions")))]
        given = self.request["input"]
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            kind = item.get("type", "message")
            if kind == "message":
                out.append((item["role"], flat(item["content"])))
            elif kind.endswith("_call_output"):
                out.append(("tool", flat(item.get("output"))))
            elif kind.endswith("_call"):
                out.append(("call", flat(item.get("arguments") or item.get("input") or item.get("action"))))
        return out

    def call(self, tool, arguments, name):
        return self.item({
            "type": "function_call", "id": f"fc_{name}", "call_id": name, "name": tool, "arguments": json.dumps(arguments),
            "status": "completed",
        })

    def text(self, text):
        part = {"type": "output_text", "text": text, "annotations": []}
        return self.item({"type": "message", "id": "msg_1", "role": "assistant", "content": [part], "status": "completed"})

    def item(self, item):
        usage = {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
        }
        whole = {
            "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": self.request.get("model"),
            "output": [item], "usage": usage,
        }
        if not self.request.get("stream"):
            return "application/json", json.dumps(whole)
        return sse([
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ], named=True)


class Gemini:
    """GenerateContent."""

    def __init__(self, request, path):
        self.request = request
        self.streams = "stream" in path

    def tools(self):
        tools = self.request.get("tools") or []
        return [one.get("name") for tool in tools for one in tool.get("functionDeclarations") or []]

    def messages(self):
        system = self.request.get("systemInstruction") or {}
        out = [("system", flat([part.get("text") for part in system.get("parts") or []]))]
        for content in self.request["contents"]:
            for part in content["parts"]:
                if "functionCall" in part:
                    out.append(("call", json.dumps(part["functionCall"].get("args"), sort_keys=True)))
                elif "functionResponse" in part:
                    out.append(("tool", json.dumps(part["functionResponse"]["response"], sort_keys=True)))
                else:
                    out.append((content.get("role", "user"), flat(part)))
        return out

    def call(self, tool, arguments, name):
        return self.part({"functionCall": {"id": name, "name": tool, "args": arguments}})

    def text(self, text):
        return self.part({"text": text})

    def part(self, part):
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}
        return sse([whole]) if self.streams else ("application/json", json.dumps(whole))


# Ends of paths, each with its protocol.
DIALECTS = {
    "/messages": Anthropic,
    "/chat/completions": Chat,
    "/responses": Responses,
    ":generateContent": Gemini,
    ":streamGenerateContent": Gemini,
}
