package usertokens_test

import (
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
	"fanfare/store/usertokens"
)

// U1: a new key of fanfare's own is known everywhere before anybody signs with it, and
// the tokens of the one before stand.
func TestU1_ARotatedKey(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		rec, db := mustRecord(t, url), storetest.Open(t, "embedded")
		one, two := mustOpen(t, rec, db, ""), mustOpen(t, rec, db, "")
		before := mustIssue(t, one, "alice")
		first := mustUser(t, one, before).KeyID
		kid, err := usertokens.Rotate(t.Context(), rec, false)
		storetest.Must(t, err)
		rested, err := usertokens.New(rec, db, usertokens.Options{Rest: time.Nanosecond})
		storetest.Must(t, err)
		for _, s := range []*usertokens.Store{one, two, rested} {
			storetest.Must(t, s.Load(t.Context()))
		}
		for name, want := range map[*usertokens.Store]string{one: first, two: first, rested: kid} {
			token := mustIssue(t, name, "alice")
			for _, s := range []*usertokens.Store{one, two, rested} {
				if by := mustUser(t, s, token).KeyID; by != want {
					t.Errorf("signed by %s, want %s", by, want)
				}
				mustUser(t, s, before)
			}
		}

		t.Run("TheNewOneSignsOnceItHasRested", func(t *testing.T) {
			s, err := usertokens.New(rec, db, usertokens.Options{Rest: 2 * time.Second})
			storetest.Must(t, err)
			storetest.Must(t, s.Load(t.Context()))
			storetest.Eventually(t, 20*time.Second, "the new key signs", func() bool {
				return mustUser(t, s, mustIssue(t, s, "alice")).KeyID == kid
			})
		})

		t.Run("EndTokens", func(t *testing.T) {
			last, err := usertokens.Rotate(t.Context(), rec, true)
			storetest.Must(t, err)
			storetest.Must(t, one.Load(t.Context()))
			_, err = one.Recall(before)
			storetest.Must(t, err)
			_, forged, err := one.Verify(before, always)
			storetest.WantCode(t, err, api.CodeUnauthorized)
			if by := mustUser(t, one, mustIssue(t, one, "alice")).KeyID; forged || by != last {
				t.Errorf("an old token counts as forged: %v; signed by %s, not %s", forged, by, last)
			}
			storetest.Must(t, two.Load(t.Context()))
			if !strings.HasPrefix(last, "ff.") || two.Ended(&api.User{ID: "alice", KeyID: first, ExpiresAt: time.Now().Add(time.Hour)}) != api.ByeRevoked {
				t.Error("an open stream of an old token goes on")
			}
		})
	})
}
