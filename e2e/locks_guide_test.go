package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// lockPrograms are the programs of docs/locks.md, with a shorter lease, and work that notes when it begins and ends, and
// takes two seconds longer than the lease.
var lockPrograms = map[string]guideWorker{
	"TypeScript": {"ts", []string{
		"const lease = 30_000,", "const lease = 3_000,",
		`import { randomUUID } from "node:crypto";`, `import { appendFileSync } from "node:fs";
import { randomUUID } from "node:crypto";`,
		`  console.log("working with the fence", fence);`, `  const note = (what: string) => appendFileSync(process.env.NOTES!, what + " " + fence + "\n");
  note("begin");
  for (let n = 0; n < 100; n++) {
    await sleep(50);
    if (!held()) throw new Error("the lease is over");
  }
  note("end");`,
	}, "nightly.mts", findNode},
	"Go": {"go", []string{
		"const lease = 30 * time.Second", "const lease = 3 * time.Second",
		"\tfmt.Println(\"working with the fence\", fence)\n\treturn ctx.Err()\n", `	note := func(what string) error {
		notes, err := os.OpenFile(os.Getenv("NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer notes.Close()
		_, err = fmt.Fprintf(notes, "%s %d\n", what, fence)
		return err
	}
	if err := note("begin"); err != nil {
		return err
	}
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return note("end")
`,
	}, "nightly.go", buildGo},
}

// The programs of docs/locks.md: of two one works, for longer than the lease. If it is killed, the other one does the work
// with a higher fence, and whoever comes later ends at once.
func TestL1_TheProgramsOfTheGuide(t *testing.T) {
	t.Parallel()
	for language, w := range lockPrograms {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, args := w.mustBuild(t, "docs/locks.md", dir)
			server := mustServeMany(t, 1, quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.SQLite(t))...)[0]
			notes := filepath.Join(dir, "notes")
			start := func() *program {
				return launchPath(t, path, dir, append(args[:len(args):len(args)], "report"), "FANFARE_URL="+server.base, "NOTES="+notes)
			}
			noted := func(what string) (fences []int64) {
				text, _ := os.ReadFile(notes) // there may be none yet
				for line := range strings.Lines(string(text)) {
					var word string
					var fence int64
					if _, err := fmt.Sscan(line, &word, &fence); err != nil {
						t.Fatalf("noted %q", line)
					}
					if word == what {
						fences = append(fences, fence)
					}
				}
				return fences
			}
			first := start()
			storetest.Eventually(t, time.Minute, "the first works", func() bool { return len(noted("begin")) == 1 })
			second := start()
			first.kill()
			if code := second.exitCode(time.Minute); code != 0 {
				t.Fatalf("the second ended with %d", code)
			}
			begun, ended := noted("begin"), noted("end")
			if len(begun) != 2 || len(ended) != 1 || begun[1] <= begun[0] || ended[0] != begun[1] {
				t.Fatalf("begun with %v, ended with %v", begun, ended)
			}
			if code := start().exitCode(time.Minute); code != 0 || len(noted("begin")) != 2 {
				t.Errorf("the third ended with %d, and begun are %v", code, noted("begin"))
			}
		})
	}
}
