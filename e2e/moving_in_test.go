package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// The lines about moving in work, and bring in a device and a contact.
func TestLinesAboutMovingIn(t *testing.T) {
	t.Parallel()
	s := &scene{T: t}
	s.serve()
	s.mustRunLines(mustBlocks(t, "docs/operations.md", "Moving in from another system"))
	var devices, contacts struct{ Items []map[string]any }
	s.server.must(200, &devices, "GET", "/v1/users/bob/devices", nil)
	s.server.must(200, &contacts, "GET", "/v1/users/bob/contacts", nil)
	if len(devices.Items) != 1 || len(contacts.Items) != 1 || contacts.Items[0]["contact"] != "carol" {
		t.Errorf("devices %v, contacts %v", devices.Items, contacts.Items)
	}
}

// sendFunction is the function of docs/operations.md that sends a file in batches.
var sendFunction = regexp.MustCompile(`(?s)\nsend\(\) \{.*?done; \}\n`)

// The programs that convert the exports of other systems make batches that fanfare takes, of the devices that can move.
func TestMovingInFromOtherSystems(t *testing.T) {
	t.Parallel()
	const phone = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00"
	send := sendFunction.FindString(storetest.RepositoryFile(t, "docs/operations.md"))
	for section, sample := range map[string]string{"From gorush": "csv", "From OneSignal": "csv", "From Amazon Pinpoint": "json"} {
		t.Run(section, func(t *testing.T) {
			t.Parallel()
			s := &scene{T: t}
			s.serve()
			s.mustConvert(section, sample)
			s.mustRunLines(send + "send /v1/devices/batch devices devices.jsonl\n")
			for user, want := range map[string]string{"bob": phone + " apns production", "carol": "carols-phone:APA91bHPRgkF fcm ", "dave": ""} {
				var devices api.DeviceList
				s.server.must(200, &devices, "GET", "/v1/users/"+user+"/devices", nil)
				got := ""
				for _, d := range devices.Items {
					got += d.Token + " " + d.Platform + " " + string(d.Environment)
				}
				if got != want {
					t.Errorf("%s has %q, want %q", user, got, want)
				}
			}
		})
	}
	t.Run("From topics of FCM", func(t *testing.T) {
		t.Parallel()
		s := &scene{T: t}
		s.serve()
		s.mustConvert("From topics of FCM", "csv")
		for topic, want := range map[string]string{"news": "bob carol", "sneakers": "bob"} {
			var members struct{ Items []struct{ User string } }
			s.server.must(200, &members, "GET", "/v1/topics/"+topic+"/users", nil)
			var got []string
			for _, m := range members.Items {
				got = append(got, m.User)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s has the members %q, want %s", topic, got, want)
			}
		}
	})
}

// mustConvert runs the program of a section of docs/start/moving.md with the sample of the section.
func (s *scene) mustConvert(section, sample string) {
	s.Helper()
	dir := s.server.dir
	storetest.Must(s, os.WriteFile(filepath.Join(dir, "export"), []byte(mustGuideBlocks(s, "docs/start/moving.md", section, sample)[0]), 0o600))
	program := mustScript(s.T, dir, "convert.py", mustGuideBlocks(s, "docs/start/moving.md", section, "python")[0], "python3")
	program.Args = append(program.Args, "export")
	program.Dir, program.Env = dir, environment([]string{"FANFARE_URL=" + s.server.base, "FANFARE_KEY=" + runbookKey})
	if out, err := program.CombinedOutput(); err != nil {
		s.Fatalf("%v:\n%s", err, out)
	}
}

// All batches of a long file are sent, each once and in order. GNU's split gives longer names after 650 files if it may.
func TestMovingInSendsLongFiles(t *testing.T) {
	t.Parallel()
	const batches = 700
	send := strings.Replace(sendFunction.FindString(storetest.RepositoryFile(t, "docs/operations.md")), "-l 1000", "-l 1", 1)
	// What is sent goes to a file, and what is no part of the file may not be sent.
	script := `curl() { cat >>sent; echo >>sent; }
seq ` + strconv.Itoa(batches) + ` >devices
for other in gz json; do echo other >devices.$other; done
` + send + "send /v1/devices/batch devices devices\n"
	dir := t.TempDir()
	shell := exec.Command("bash", "-euo", "pipefail")
	shell.Dir, shell.Env, shell.Stdin = dir, environment([]string{"FANFARE_URL=", "FANFARE_KEY="}), strings.NewReader(script)
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	sent, err := os.ReadFile(filepath.Join(dir, "sent"))
	storetest.Must(t, err)
	var want strings.Builder
	for n := range batches {
		fmt.Fprintf(&want, "{\"devices\":[%d]}\n", n+1)
	}
	if string(sent) != want.String() {
		t.Errorf("%d batches were sent, or not in order, want %d", strings.Count(string(sent), "\n"), batches)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 4 {
		t.Errorf("%d files are left", len(left))
	}
}
