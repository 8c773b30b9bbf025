package record_test

import (
	"fmt"
	"testing"
	"time"

	"fanfare/store/record"
	"fanfare/store/storetest"
)

// The types of which facts are written are replaced as a whole. Those that stay keep their time, and each change raises the version.
func TestFactTypes(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		const known = 5000
		steps := []struct {
			types   []string
			changes bool
		}{{nil, false}, {[]string{"b", "a"}, true}, {[]string{"a", "b"}, false}, {[]string{"c", "a"}, true}, {nil, true}, {nil, false}}
		version, times := mustVersion(t, db, record.VersionFacts), map[string]int64{}
		for i, step := range steps {
			set, err := db.PutFactTypes(t.Context(), step.types, known)
			storetest.Must(t, err)
			read, err := db.FactTypes(t.Context())
			storetest.Must(t, err)
			if fmt.Sprint(set) != fmt.Sprint(read) || len(set) != len(step.types) {
				t.Errorf("step %d: %v, then %v", i, set, read)
			}
			for _, s := range set {
				ahead := time.Until(time.UnixMilli(s.Since))
				if before := times[s.Type]; before != 0 && before != s.Since || before == 0 && (ahead < time.Second || ahead > known*time.Millisecond+time.Minute) {
					t.Errorf("step %d: %s has the time %d, before %d, %v ahead", i, s.Type, s.Since, before, ahead)
				}
				times[s.Type] = s.Since
			}
			now := mustVersion(t, db, record.VersionFacts)
			if (now > version) != step.changes {
				t.Errorf("step %d: the version was %d and is %d", i, version, now)
			}
			version = now
		}
	})
}
