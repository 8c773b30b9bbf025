package contacts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

func (w *world) mustPutAll(t testing.TB, user string, r api.Relationship, contacts ...string) {
	t.Helper()
	list := make([]api.Contact, len(contacts))
	for i, c := range contacts {
		list[i] = api.Contact{Contact: c, Relationship: r}
	}
	_, err := w.PutContacts(t.Context(), user, list, api.Idempotency{})
	storetest.Must(t, err)
}

// mustPending is the number of outbox rows of contacts.
func (w *world) mustPending(t testing.TB) int64 {
	t.Helper()
	stats, err := w.Stats(t.Context())
	storetest.Must(t, err)
	return stats.Pending
}

// TestR16_ABatchIsWhatItsCallsWouldBe: new contacts, one that was deleted, one that is there and one
// that becomes more, in the owner's index and in those of the contacts, at once.
func TestR16_ABatchIsWhatItsCallsWouldBe(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		stop := w.work(t)
		for i, c := range []string{"new", "back", "same", "more"} {
			w.mustUpload(t, "u"+c, c, "public", int64(10+i))
			w.mustPut(t, c, "me", "friend")
		}
		w.mustUpload(t, "mine", "me", "friends", 50)
		w.mustPut(t, "me", "back", "friend")
		w.mustPut(t, "me", "same", "friend")
		w.mustPut(t, "me", "more", "contact")
		w.mustRemove(t, "me", "back")
		w.waitForJobs(t)
		w.want(t, "me", 5, "more@13 same@12")
		for user, want := range map[string]string{"new": "", "back": "", "same": "me@50", "more": ""} {
			w.want(t, user, 5, want)
		}
		stop() // from here on nobody but the call itself works, here without its time limit
		w.batched = func(ctx context.Context, row record.OutboxRow) {
			storetest.Must(t, w.relayBatch(ctx, row))
			storetest.Must(t, w.close(ctx, row.ID))
		}
		w.mustPutAll(t, "me", "friend", "same", "new", "more", "back", "silent", "me")
		w.wantMembers(t, "me", "me@50", "more@13", "same@12", "back@11", "new@10")
		for _, user := range []string{"new", "back", "same", "more"} {
			w.wantMembers(t, user, "me@50")
		}
		w.want(t, "me", 9, w.bruteForce(t, "me", 9))
		if n := w.mustPending(t); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		// The same again changes nothing and leaves nothing to do.
		w.batched = func(context.Context, record.OutboxRow) { t.Error("there is something to do") }
		w.mustPutAll(t, "me", "friend", "same", "new", "more", "back", "silent", "me")
	})
}

// TestR16_ALargeBatch has more contacts than an index, a script and a statement take.
func TestR16_ALargeBatch(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		names, values := make([]string, api.MaxContactBatch), make([]string, api.MaxContactBatch)
		for i := range names {
			names[i] = fmt.Sprintf("c%04d", i)
			values[i] = fmt.Sprintf("('u%d', '%s', 'public', FALSE, %d, 0, 0)", i, names[i], 1+(i*7919)%1000)
		}
		_, err := w.sql.ExecContext(t.Context(), "INSERT INTO uploads (id, owner, visibility, deleted, uploaded_at, created_at, updated_at) VALUES "+strings.Join(values, ", "))
		storetest.Must(t, err)
		w.relay = quick // does what the call does not in its 2 s
		w.work(t)
		w.want(t, "me", 1, "")
		for _, c := range []string{names[3], names[999]} {
			w.want(t, c, 1, "")
			storetest.Must(t, w.rec.PutContacts(t.Context(), record.Contact{Owner: c, Contact: "me", Relationship: "friend"}))
		}
		_, _, err = w.rec.PutUpload(t.Context(), &api.UploadRequest{ID: "mine", Owner: "me", Visibility: "contacts", UploadedAt: uploadOf("", "", 5).UploadedAt}, api.Idempotency{})
		storetest.Must(t, err)
		w.mustPutAll(t, "me", "contact", names...)
		w.waitForJobs(t)
		w.wantSound(t, "me")
		for _, n := range []int{1, 10, 120} {
			w.want(t, "me", n, w.bruteForce(t, "me", n))
		}
		w.wantMembers(t, names[3], "me@5")
		w.wantMembers(t, names[999], "me@5")
	})
}

// TestR16_BatchesAgainstEverything: batches in opposite order, single calls, removals and uploads at
// the same time; in the end the index agrees with the record.
func TestR16_BatchesAgainstEverything(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 12, Min: 4}, func(t *testing.T, w *world) {
		w.relay = quick
		w.work(t)
		users := make([]string, 30)
		for i := range users {
			users[i] = fmt.Sprintf("u%03d", i)
			w.want(t, users[i], 1, "")
		}
		relations := []api.Relationship{"contact", "friend", "family"}
		storetest.AtOnce(t, 10, func(ctx context.Context, i int) error {
			for round := range 6 {
				owner, contact := users[rand.IntN(3)], users[rand.IntN(len(users))]
				var err error
				switch {
				case i < 5:
					list := make([]api.Contact, len(users))
					for k, c := range users {
						list[k] = api.Contact{Contact: c, Relationship: relations[rand.IntN(3)]}
					}
					if i%2 == 0 {
						slices.Reverse(list)
					}
					_, err = w.PutContacts(ctx, owner, list, api.Idempotency{})
				case i < 7:
					err = w.DeleteContact(ctx, owner, contact)
				case i < 8:
					_, _, err = w.PutContact(ctx, contact, owner, &api.ContactRequest{Relationship: relations[rand.IntN(3)]})
				default:
					r := uploadOf(fmt.Sprint("up", i, "-", round), contact, rand.Int64N(1000))
					r.Visibility = []api.Visibility{"public", "contacts", "friends", "family"}[rand.IntN(4)]
					_, _, _, err = w.PostUpload(ctx, r, api.Idempotency{})
				}
				if err != nil {
					return fmt.Errorf("caller %d, round %d: %w", i, round, err)
				}
			}
			return nil
		})
		w.waitForJobs(t)
		for _, user := range users {
			w.wantSound(t, user)
			all := strings.Fields(w.bruteForce(t, user, 500))
			for _, n := range []int{1, 3, 12} {
				w.want(t, user, n, strings.Join(all[:min(n, len(all))], " "))
			}
		}
	})
}

// TestR16_ABadRowHoldsUpNoOther: a batch whose row cannot be read stays, and the others are relayed.
func TestR16_ABadRowHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustUpload(t, "u", "a", "public", 5)
		w.want(t, "me", 1, "")
		var rows []record.OutboxRow
		w.batched = func(_ context.Context, row record.OutboxRow) { rows = append(rows, row) } // dies here
		w.mustPutAll(t, "me", "friend", "a", "b")
		rows = append([]record.OutboxRow{{ID: "bad", Kind: record.KindContacts, Subject: "me", Payload: "?"}}, rows...)
		done, err := w.Outbox()[record.KindContacts](t.Context(), rows)
		if err == nil || !slices.Equal(done, []string{rows[1].ID}) {
			t.Errorf("done: %v, %v", done, err)
		}
		w.wantMembers(t, "me", "a@5")
	})
}
