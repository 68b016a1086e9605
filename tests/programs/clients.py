#!/usr/bin/env python3
"""Clients that connect by name, each bare, under a profile that names the host, and under one that does not.

The first two must print the same and come to the server; the third must fail and not come. Nothing is configured for any client. Needs root, as
`check.py` does, whose home and network they have. Programs that are not there are skipped.
"""

import argparse
import http.server
import json
import pathlib
import shutil
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "testenv"))

from home import Home, loopback, remove

PATH = "/usr/local/bin:/usr/bin:/bin"
FILES = {
    "Get.java": """import java.net.*; import java.net.http.*;
class Get { public static void main(String[] a) throws Exception {
  System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body());
  System.out.println(new String(new URL(a[0]).openStream().readAllBytes())); } }
""",
    "get.go": """package main
import ("fmt"; "io"; "net/http"; "os")
func main() { for i := 0; i < 3; i++ { r, e := http.Get(os.Args[1]); if e != nil { fmt.Println(e); os.Exit(1) }; b, _ := io.ReadAll(r.Body); fmt.Println(string(b)) } }
""",
}
# The program that has to be there, and the line. `{port}` speaks HTTP, `{ssh}` begins as a server of SSH does.
ROWS = [
    ("curl", "curl -sS http://localhost:{port}/p"),
    ("wget", "wget -qO- http://localhost:{port}/p"),
    ("java", "java Get.java http://localhost:{port}/p"),
    ("npm", "npm view --registry=http://localhost:{port}/ p version"),
    ("ssh", "ssh -v -o BatchMode=yes -o StrictHostKeyChecking=no -p {ssh} localhost true 2>&1 | grep -o 'remote software version.*'"),
    ("go", "CGO_ENABLED=0 go build -o get get.go && ./get http://localhost:{port}/p"),
    ("busybox", "busybox wget -qO- http://localhost:{port}/p"),
    ("php", "php -r 'echo file_get_contents($argv[1]);' http://localhost:{port}/p"),
    ("ruby", "ruby -ropen-uri -e 'puts URI.open(ARGV[0]).read' http://localhost:{port}/p"),
    ("socat", "printf 'GET /p HTTP/1.0\\r\\nHost: localhost:{port}\\r\\n\\r\\n' | socat - TCP:localhost:{port} | tail -n 1"),
    ("bash", "exec 3<>/dev/tcp/localhost/{port}; printf 'GET /p HTTP/1.0\\r\\nHost: localhost:{port}\\r\\n\\r\\n' >&3; tail -n 1 <&3"),
]
PACKAGE = json.dumps({"name": "p", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": {"name": "p", "version": "1.2.3"}}})


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.came += 1
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(PACKAGE)))
        self.end_headers()
        self.wfile.write(PACKAGE.encode())

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Banner(http.server.ThreadingHTTPServer):
    """A server that sends the first line of SSH, and no more."""

    came = 0

    def process_request(self, request, _):
        self.came += 1
        request.sendall(b"SSH-2.0-Example_1.0\r\n")
        request.settimeout(5)
        try:
            while request.recv(4096):
                break
        except OSError:
            pass
        self.shutdown_request(request)


def serving(kind, handler):
    server = kind(("127.0.0.1", 0), handler)
    server.came = 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hookjail", type=pathlib.Path, required=True)
    parser.add_argument("--user", required=True, help="who runs them")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="where the home is")
    options = parser.parse_args()
    loopback()
    web, ssh = serving(http.server.ThreadingHTTPServer, Handler), serving(Banner, Handler)
    ports = {"port": web.server_port, "ssh": ssh.server_port}
    box = Home(options.work, options.user, options.hookjail)
    counts = {"passed": 0, "failed": 0, "ignored": 0}
    for program, line in ROWS:
        line = line.format(**ports)
        if not shutil.which(program, path=PATH):
            counts["ignored"] += 1
            print(f"skipped: no {program}", flush=True)
            continue
        ends = []
        for allowed in (None, [f"localhost:{web.server_port} http", f"localhost:{ssh.server_port} any"], ["localhost:1 any"]):
            if box.home.exists():
                remove(box.home)
            box.make_places()
            for name, text in FILES.items():
                box.write(box.project / name, text)
            command = []
            if allowed:
                profile = f'description = "named"\nextends = ["develop", "certificates"]\nnetwork = "named"\negress = {json.dumps(allowed)}\n'
                box.write(box.home / ".config/hookjail/profiles/named.toml", profile)
                command = [str(options.hookjail), "run", "--private", "--mirror", "--profile", "named", "--timeout", "60s", "--"]
            web.came = ssh.came = 0
            end = box.run([*command, "/bin/bash", "-c", line], [PATH], {}, seconds=90)
            ends.append((end, web.came + ssh.came))
        (bare, came), (inside, came_inside), (other, came_other) = ends
        if bare[0] != 0 or not came:
            verdict = f"DOES NOT WORK BARE: {bare}"
        elif inside[:2] != bare[:2] or not came_inside:
            verdict = f"NOT AS BARE: bare {bare}\n  confined {inside}"
        elif came_other or other[:2] == bare[:2]:
            verdict = f"REACHED WITHOUT A RULE: {other}"
        else:
            verdict = "ok"
        counts["passed" if verdict == "ok" else "failed"] += 1
        print(f"{line[:90]:90} {verdict}", flush=True)
    box.end_all()
    print("test result: " + " ".join(f"{number} {name};" for name, number in counts.items()))
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
