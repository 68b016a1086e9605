// Runs one hook of a runtime before a tool call: main EVENT HOOK. Exit code 0: the call may go on. 2: the call must not.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/hookjail/hookjail/clients/go"
	pb "github.com/hookjail/hookjail/clients/go/hookjailpb"
)

// showNeeds shows what the hook could do, and the bytes that a trust is about. Nothing of the hook runs.
func showNeeds(event, hook string) error {
	output, err := exec.Command("hookjail", "run", "--private", "--dry-run", "--json", "--contract", "claude-code",
		"--point", "PreToolUse", "--profile", "workspace-ro", "--event", event, "--", hook).Output()
	var needs struct {
		Network string
		Files   []struct{ Path, Sha256 string }
	}
	if err = errors.Join(err, json.Unmarshal(output, &needs)); err == nil {
		fmt.Printf("%s runs under the profile workspace-ro\n  network  %s\n", hook, needs.Network)
	}
	for _, file := range needs.Files {
		fmt.Printf("  sha256   %s  %s\n", file.Sha256, file.Path)
	}
	return err
}

func run(ctx context.Context, event, hook string) error {
	text, problem := os.ReadFile(event)
	client, err := hookjail.Dial(ctx)
	if err = errors.Join(err, problem, showNeeds(event, hook)); err != nil {
		return err
	}
	result, err := client.Execute(ctx, hookjail.Hook{
		Argv: []string{hook}, Contract: pb.Contract_CONTRACT_CLAUDE_CODE, Event: json.RawMessage(text),
		Point: "PreToolUse", Profile: "workspace-ro", Timeout: 10 * time.Second, Workspace: filepath.Dir(hook),
	})
	passing := []pb.Decision{pb.Decision_DECISION_ALLOW, pb.Decision_DECISION_NONE}
	if err == nil && (!result.Confirmed || !slices.Contains(passing, result.Decision)) {
		err = errors.New(result.Verdict.GetReason())
	}
	return err
}

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Println("denied:", err)
		os.Exit(2)
	}
	fmt.Println("allowed")
}
