package hookjail

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestAPrivateServerHasASessionAndAnAddressOfItsOwn(t *testing.T) {
	t.Setenv("HOOKJAIL_ADDR", "/nonexistent/sock")
	client := newSetup(t).private(t)
	pid := strconv.Itoa(client.server.process.Process.Pid)
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	must(t, err)
	_, after, _ := strings.Cut(string(stat), ") ")
	if session := strings.Fields(after)[3]; session != pid {
		t.Errorf("%s is in session %s", pid, session)
	}
	environment, err := os.ReadFile("/proc/" + pid + "/environ")
	must(t, err)
	if strings.Contains(string(environment), "HOOKJAIL_ADDR=") {
		t.Error("the server has the address that clients of this environment call")
	}
}

func TestOnlyOwnDaemonsAndRootsAreBelieved(t *testing.T) {
	for _, pair := range [][2]int{{1000, 1000}, {0, 1000}, {0, 0}} {
		if err := accepted(pair[0], pair[1]); err != nil {
			t.Errorf("%v: %v", pair, err)
		}
	}
	for _, pair := range [][2]int{{1001, 1000}, {1000, 0}, {65534, 0}} {
		if accepted(pair[0], pair[1]) == nil {
			t.Errorf("%v is accepted", pair)
		}
	}
}
