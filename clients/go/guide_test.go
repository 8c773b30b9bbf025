package fanfare_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	fanfare "fanfare/clients/go"
)

// guide starts a program of docs/go-client.md, and returns its lines and the process.
func guide(t *testing.T, s *server, n int) (lines chan string, process *exec.Cmd) {
	t.Helper()
	text, err := os.ReadFile("../../docs/go-client.md")
	must(t, err)
	programs := regexp.MustCompile("(?s)\n```go\n(.*?)```").FindAllSubmatch(text, -1)
	if len(programs) != 3 {
		t.Fatalf("the guide has %d programs", len(programs))
	}
	here, err := filepath.Abs(".")
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), programs[n][1], 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module guide\n\ngo 1.26.0\n"), 0o600))
	for _, args := range [][]string{
		{"mod", "edit", "-require", "fanfare/clients/go@v0.0.0", "-replace", "fanfare/clients/go=" + here}, {"vet", "."}, {"build", "-o", "guide", "."},
	} {
		command := exec.Command("go", args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v: %s", args, err, out)
		}
	}
	process = exec.Command(filepath.Join(dir, "guide"))
	process.Env = append(os.Environ(), "FANFARE_URL="+s.proxy.URL, "FANFARE_KEY="+key)
	out, err := process.StdoutPipe()
	must(t, err)
	process.Stderr = os.Stderr
	must(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill() })
	lines = make(chan string, 100)
	go func() {
		defer close(lines)
		for text := bufio.NewScanner(out); text.Scan(); {
			lines <- text.Text()
		}
	}()
	return lines, process
}

// line is the next line of a program.
func line(t *testing.T, lines chan string) string {
	t.Helper()
	select {
	case text := <-lines:
		return text
	case <-time.After(time.Minute):
		t.Fatal("the program says nothing")
		return ""
	}
}

// The programs of the guide do what it says.
func TestGuide(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), within(t, 2*time.Minute)
	c := s.client(fanfare.Options{})

	calls, process := guide(t, s, 0)
	if id, sold, queues := line(t, calls), line(t, calls), line(t, calls); !strings.HasSuffix(id, " <nil>") || !strings.Contains(sold, "refused: fanfare: POST /v1/sales/spring/reservations: 404 sale_not_found") || queues != "<nil>" {
		t.Errorf("%q, %q, %q", id, sold, queues)
	}
	must(t, process.Wait())

	chat, err := c.CreateChat(ctx, fanfare.NewChat{Creator: "alice", Members: []string{"bob"}, Message: new("hello")})
	must(t, err)
	stream, _ := guide(t, s, 1)
	if got := line(t, stream); got != "alice hello" {
		t.Errorf("the stream says %q", got)
	}
	until(t, "the message is acknowledged", func() bool {
		var chats struct{ Items []struct{ Acked int64 } }
		must(t, c.Call(ctx, "GET", "/v1/users/bob/chats", nil, &chats))
		return len(chats.Items) == 1 && chats.Items[0].Acked == 1 && chat.ID != ""
	})

	job, err := c.EnqueueJob(ctx, "emails", fanfare.NewJob{Type: "welcome", Payload: map[string]string{"to": "alice"}})
	must(t, err)
	worker, process := guide(t, s, 2)
	if got := line(t, worker); !strings.HasPrefix(got, job.ID+" ") || !strings.HasSuffix(got, " alice") {
		t.Errorf("the worker says %q", got)
	}
	must(t, process.Process.Signal(syscall.SIGTERM))
	must(t, process.Wait())
	if now := state(t, c, job.ID); now.State != "done" {
		t.Errorf("the job is %+v", now)
	}
}
