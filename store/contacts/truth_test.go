package contacts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/batch"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// crowd is some users with one contact each, c-<user>, whose upload bears the
// user's number. The statements that answer them are held till they may go on.
type crowd struct {
	*world
	users   []string
	begun   chan []string // the viewers of a statement that has begun
	goOn    chan error    // ends its hold; an error ends the statement too
	replies chan reply
}

// reply is what a reader got: "name@time ..." or the code of an error.
type reply struct{ user, text string }

const crowdSize = 8

// newCrowd lets all users read: the first one's statement has begun, and all
// others wait for the next. The second reads within ctx.
func newCrowd(ctx context.Context, t *testing.T, w *world) *crowd {
	t.Helper()
	c := &crowd{world: w, begun: make(chan []string), goOn: make(chan error), replies: make(chan reply, crowdSize)}
	for i := range crowdSize {
		user := fmt.Sprint("u", i)
		c.users = append(c.users, user)
		w.mustPut(t, user, "c-"+user, "friend")
		w.mustUpload(t, "up-"+user, "c-"+user, "public", int64(i))
		w.want(t, user, 10, fmt.Sprintf("c-u%d@%d", i, i))
	}
	// None begins beside another, however long that is held.
	w.truth.shared = batch.New(batch.Options{Most: sharedQuestions, Timeout: time.Minute}, w.truth.run)
	read := w.truth.read
	w.truth.read = func(ctx context.Context, queries ...record.ActivityQuery) ([][]record.Activity, error) {
		var viewers []string
		for _, q := range queries {
			viewers = append(viewers, q.Viewer)
		}
		c.begun <- viewers
		if err := <-c.goOn; err != nil {
			return nil, err
		}
		return read(ctx, queries...)
	}
	go c.reads(t.Context(), c.users[0])
	c.wantStatement(t, c.users[0])
	go c.reads(ctx, c.users[1])
	for _, user := range c.users[2:] {
		go c.reads(t.Context(), user)
	}
	storetest.Eventually(t, testPatience, "all others wait", func() bool { return w.truth.shared.Waiting() == crowdSize-1 })
	return c
}

func (c *crowd) reads(ctx context.Context, user string) {
	got, err := c.RecentContacts(ctx, user, 10)
	if err != nil {
		c.replies <- reply{user, string(api.CodeOf(err))}
		return
	}
	c.replies <- reply{user, write(got)}
}

func (c *crowd) wantStatement(t *testing.T, viewers ...string) {
	t.Helper()
	if got := slices.Sorted(slices.Values(<-c.begun)); !slices.Equal(got, viewers) {
		t.Fatalf("a statement for %v, want %v", got, viewers)
	}
}

// wantReplies wants the named texts, and from everybody else his own contact.
func (c *crowd) wantReplies(t *testing.T, n int, want map[string]string) {
	t.Helper()
	for range n {
		got := <-c.replies
		text, ok := want[got.user]
		if !ok {
			text = fmt.Sprintf("c-%s@%s", got.user, got.user[1:])
		}
		if got.text != text {
			t.Errorf("%s got %q, want %q", got.user, got.text, text)
		}
	}
}

// What is committed before a statement that was asked for begins is seen, also by
// those who came while another statement was under way.
func TestSharedStatementBeginsAfterItsReaders(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		c := newCrowd(t.Context(), t, w)
		storetest.Must(t, w.rec.DeleteContact(t.Context(), "u3", "c-u3"))
		c.goOn <- nil
		c.wantStatement(t, c.users[1:]...)
		c.goOn <- nil
		c.wantReplies(t, crowdSize, map[string]string{"u3": ""})
	})
}

func TestSharedStatementAndAReaderWhoLeaves(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		ctx, leave := context.WithCancel(t.Context())
		c := newCrowd(ctx, t, w)
		leave()
		c.wantReplies(t, 1, map[string]string{"u1": "unavailable"}) // at once
		c.goOn <- nil
		c.wantStatement(t, c.users[2:]...) // nothing is asked for who has left
		c.goOn <- nil
		c.wantReplies(t, crowdSize-1, nil)
	})
	t.Run("WhoLeavesInMidStatement", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "embedded", storetest.SQLite(t), Options{})
		ctx, leave := context.WithCancel(t.Context())
		c := newCrowd(ctx, t, w)
		c.goOn <- nil
		c.wantStatement(t, c.users[1:]...)
		c.wantReplies(t, 1, nil)
		leave()
		c.wantReplies(t, 1, map[string]string{"u1": "unavailable"})
		c.goOn <- nil
		c.wantReplies(t, crowdSize-2, nil)
	})
}

func TestSharedStatementFails(t *testing.T) {
	t.Parallel()
	t.Run("EachIsTriedAlone", func(t *testing.T) {
		t.Parallel()
		eachWorld(t, Options{}, func(t *testing.T, w *world) {
			c := newCrowd(t.Context(), t, w)
			c.goOn <- nil
			c.wantStatement(t, c.users[1:]...)
			c.goOn <- errors.New("one of them is not to be answered")
			for range crowdSize - 1 {
				viewers := <-c.begun
				if len(viewers) != 1 {
					t.Fatalf("after the failure, a statement for %v", viewers)
				}
				if viewers[0] == "u4" {
					c.goOn <- errors.New("not to be answered")
				} else {
					c.goOn <- nil
				}
			}
			c.wantReplies(t, crowdSize, map[string]string{"u4": "internal"})
		})
	})
	t.Run("SQLIsAway", func(t *testing.T) {
		t.Parallel()
		w := setup(t, "embedded", storetest.SQLite(t), Options{})
		c := newCrowd(t.Context(), t, w)
		c.goOn <- nil
		c.wantStatement(t, c.users[1:]...)
		c.goOn <- api.Errorf(api.CodeUnavailable, "away") // nobody is made to wait for that again
		want := map[string]string{}
		for _, user := range c.users[1:] {
			want[user] = "unavailable"
		}
		c.wantReplies(t, crowdSize, want)
	})
}

// A user who asks for many contacts waits for nobody, and nobody for him.
func TestLongQuestionsHaveStatementsOfTheirOwn(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		var want []string
		for i := range sharedContacts + 1 {
			contact := fmt.Sprintf("many-%02d", i)
			w.mustPut(t, "many", contact, "friend")
			w.mustUpload(t, "up-"+contact, contact, "public", int64(i))
			want = append([]string{fmt.Sprintf("%s@%d", contact, i)}, want...)
		}
		w.want(t, "many", 100, strings.Join(want, " "))
		c := newCrowd(t.Context(), t, w)
		go func() { _, _ = w.RecentContacts(t.Context(), "many", 100) }()
		c.wantStatement(t, "many") // though the first statement is still held
		c.goOn <- nil
		c.goOn <- nil
		c.wantStatement(t, c.users[1:]...)
		c.goOn <- nil
		c.wantReplies(t, crowdSize, nil)
	})
}

// viewer is a user of the crowd below, with what is true for him.
type viewer struct {
	*world
	name     string
	contacts map[string]*seen
}

// seen is a contact: what the viewer calls it, and the times of its visible
// uploads, the newest last.
type seen struct {
	relationship string
	uploads      []int64
}

// Many users read at once while their contacts and what they may see change: each
// gets what is true for him, with all he committed before he asked.
func TestManyReadersEachHisOwn(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Scans: 16}, func(t *testing.T, w *world) {
		w.work(t)
		var all errgroup.Group
		for i := range 16 {
			v := &viewer{world: w, name: fmt.Sprint("v", i), contacts: map[string]*seen{}}
			random := rand.New(rand.NewPCG(uint64(i), 1))
			all.Go(func() error {
				if err := v.begin(t.Context(), i); err != nil {
					return err
				}
				for step := range 8 {
					if err := errors.Join(v.change(t.Context(), random), v.check(t.Context())); err != nil {
						return fmt.Errorf("step %d of %s: %w", step, v.name, err)
					}
				}
				return nil
			})
		}
		storetest.Must(t, all.Wait())
	})
}

// begin writes the viewer's contacts, with two uploads each.
func (v *viewer) begin(ctx context.Context, number int) error {
	for i := range 6 {
		contact := fmt.Sprintf("%s-%d", v.name, i)
		s := &seen{relationship: "friend"}
		for k := range 2 {
			at := int64(1000*number + 10*i + k)
			s.uploads = append(s.uploads, at)
			r := &api.UploadRequest{ID: upload(contact, at), Owner: contact, Visibility: "public", UploadedAt: new(api.Time)}
			*r.UploadedAt = api.AtMillis(at)
			if err := insist(func() error { _, _, err := v.rec.PutUpload(ctx, r, api.Idempotency{}); return err }); err != nil {
				return err
			}
		}
		v.contacts[contact] = s
		mine := record.Contact{Owner: v.name, Contact: contact, Relationship: "friend"}
		if err := insist(func() error { return v.rec.PutContacts(ctx, mine) }); err != nil {
			return err
		}
	}
	return v.check(ctx)
}

// insist repeats what a busy machine could not do in time; all of it may be done
// twice.
func insist(f func() error) error {
	var err error
	for range 20 {
		if err = f(); !slices.Contains([]api.Code{api.CodeUnavailable, api.CodeUnknownOutcome, api.CodeOverloaded}, api.CodeOf(err)) {
			return err
		}
	}
	return err
}

func upload(contact string, at int64) string { return fmt.Sprintf("%s-%d", contact, at) }

// change commits something that the next read must show, whatever jobs wait.
func (v *viewer) change(ctx context.Context, random *rand.Rand) error {
	if len(v.contacts) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(v.contacts))
	contact := names[random.IntN(len(names))]
	s := v.contacts[contact]
	switch kind := random.IntN(4); {
	case kind == 0:
		delete(v.contacts, contact)
		return insist(func() error { return v.DeleteContact(ctx, v.name, contact) })
	case kind == 1 || len(s.uploads) == 0:
		s.relationship = map[string]string{"friend": "family", "family": "contact", "contact": "friend"}[s.relationship]
		r := &api.ContactRequest{Relationship: api.Relationship(s.relationship)}
		return insist(func() error { _, _, err := v.PutContact(ctx, v.name, contact, r); return err })
	}
	newest := upload(contact, s.uploads[len(s.uploads)-1])
	s.uploads = s.uploads[:len(s.uploads)-1]
	if random.IntN(2) == 0 {
		return insist(func() error { return v.rec.DeleteUpload(ctx, newest) })
	}
	// The contact calls the viewer nothing.
	return insist(func() error { _, err := v.rec.SetVisibility(ctx, newest, api.VisibleFamily); return err })
}

func (v *viewer) check(ctx context.Context) error {
	var want []string
	for _, contact := range slices.SortedFunc(maps.Keys(v.contacts), func(a, b string) int { return strings.Compare(b, a) }) {
		if s := v.contacts[contact]; len(s.uploads) > 0 { // later names have later uploads
			want = append(want, fmt.Sprintf("%s %s %d", contact, s.relationship, s.uploads[len(s.uploads)-1]))
		}
	}
	var r *api.RecentContacts
	err := insist(func() (err error) {
		if r, err = v.RecentContacts(ctx, v.name, 10); err == nil && !r.Complete {
			err = api.Errorf(api.CodeUnavailable, "the index is being built")
		}
		return err
	})
	if err != nil {
		return err
	}
	var got []string
	for _, c := range r.Items {
		got = append(got, fmt.Sprintf("%s %s %d", c.Contact, c.Relationship, c.LastUploadAt.UnixMilli()))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// what a viewer may see goes by the moment at which uploads are read, not by
// that at which the first contact was found.
func TestRecentUploadsAfterAChange(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustPut(t, "alice", "bob", "friend")
		w.mustPut(t, "bob", "alice", "family")
		w.mustUpload(t, "all", "bob", "public", 10)
		w.mustUpload(t, "kin", "bob", "family", 20)
		w.want(t, "alice", 10, "bob@20")
		var change func() // runs between the two statements of a read
		read := w.truth.read
		w.truth.read = func(ctx context.Context, queries ...record.ActivityQuery) ([][]record.Activity, error) {
			found, err := read(ctx, queries...)
			if now := change; now != nil {
				change = nil
				now()
			}
			return found, err
		}
		want := func(first, uploads string) {
			t.Helper()
			got, err := w.RecentUploads(t.Context(), "alice", 10)
			storetest.Must(t, err)
			var ids []string
			for _, u := range got.Items {
				ids = append(ids, u.ID)
			}
			contact := ""
			if got.Contact != nil {
				contact = *got.Contact
			}
			if contact != first || strings.Join(ids, " ") != uploads {
				t.Fatalf("%q with %v, want %q with %s", contact, ids, first, uploads)
			}
		}
		want("bob", "kin all")
		change = func() { storetest.Must(t, w.rec.DeleteContact(t.Context(), "bob", "alice")) } // bob drops alice
		want("bob", "all")
		w.mustPut(t, "alice", "carol", "friend")
		w.mustUpload(t, "late", "carol", "public", 5)
		_, err := w.db.Client().Del(t.Context(), stateKey("alice")).Result() // no jobs run: build anew
		storetest.Must(t, err)
		w.want(t, "alice", 10, "bob@10 carol@5")
		change = func() { storetest.Must(t, w.rec.DeleteUpload(t.Context(), "all")) } // carol is first now
		want("carol", "late")
		change = func() { storetest.Must(t, w.rec.DeleteContact(t.Context(), "alice", "carol")) }
		want("", "")
	})
}
