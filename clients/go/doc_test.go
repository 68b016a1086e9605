package hookjail

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// block returns a text's first code block of that language.
func block(t *testing.T, text, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no block of %s", language)
	}
	return found[1]
}

func TestTheReadmeRunsAsPrinted(t *testing.T) {
	s := newSetup(t)
	readme, err := os.ReadFile("README.md")
	must(t, err)
	must(t, os.WriteFile(s.path("main.go"), []byte(block(t, string(readme), "go")), 0o644))
	output, err := exec.Command("go", "build", "-o", s.path("example"), s.path("main.go")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	install := s.path("bin/hookjail")
	must(t, os.Mkdir(filepath.Dir(install), 0o755))
	must(t, os.Symlink(s.program, install))
	home := s.path("home")
	must(t, os.Mkdir(home, 0o700))
	run := func(name string, arguments ...string) string {
		t.Helper()
		command := exec.Command(name, arguments...)
		command.Dir = home
		command.Env = []string{"HOME=" + home, "PATH=" + filepath.Dir(install) + ":/usr/bin:/bin"}
		if os.Geteuid() == 0 {
			// As an ordinary user: root's consents and journal are the system's.
			const nobody = 65534
			must(t, filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
				must(t, err)
				return os.Lchown(path, nobody, nobody)
			}))
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", name, arguments, err, output)
		}
		return string(output)
	}
	_, consent, _ := strings.Cut(block(t, string(readme), "sh"), "\n")
	run("sh", "-c", consent)
	if printed, expected := run(s.path("example")), block(t, string(readme), "text"); printed != expected {
		t.Errorf("the example printed %q instead of %q", printed, expected)
	}
}

func TestTheReasonsAreThoseOfTheDocumentation(t *testing.T) {
	documented, err := os.ReadFile("../../docs/api.md")
	must(t, err)
	_, section, _ := strings.Cut(string(documented), "\n## Refusals\n")
	section, _, _ = strings.Cut(section, "\n## ")
	source, err := os.ReadFile("errors.go")
	must(t, err)
	names := func(pattern, text string) string {
		var names []string
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
		sort.Strings(names)
		return strings.Join(names, "\n")
	}
	if listed, documented := names(`Reason = "(\w+)"`, string(source)), names("(?m)^\\| `([A-Z_]+)` \\|", section); listed != documented || listed == "" {
		t.Errorf("listed:\n%s\ndocumented:\n%s", listed, documented)
	}
}

func TestAnErrorOfOthersIsNoRefusal(t *testing.T) {
	details, err := status.New(codes.PermissionDenied, "no").WithDetails(&errdetails.ErrorInfo{Domain: "another", Reason: "CONSENT_REQUIRED"})
	must(t, err)
	var refused *Refused
	var failed *CallError
	if err := typed(details.Err()); errors.As(err, &refused) || !errors.As(err, &failed) || failed.Code != codes.PermissionDenied {
		t.Errorf("the error is: %v", err)
	}
}
