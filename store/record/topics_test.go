package record_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

func mustJoin(t testing.TB, db *record.DB, user, topic string) {
	t.Helper()
	storetest.Must(t, db.JoinTopic(t.Context(), user, topic, false))
}

// mustFillTopics puts a user into n topics, many at once.
func mustFillTopics(t testing.TB, db *record.DB, user string, n int) {
	t.Helper()
	mustInsert(t, db, "topic_members (topic, user_id, joined_at)", n, func(i int) string { return fmt.Sprintf("('filler-%04d', '%s', 1)", i, user) })
}

func mustUsersOf(t testing.TB, db *record.DB, topic string) []string {
	t.Helper()
	users, err := db.TopicUsers(t.Context(), topic, "", 10_000)
	storetest.Must(t, err)
	return users
}

// mustCountTopics counts the topics of a user.
func mustCountTopics(t testing.TB, db *record.DB, user string) (n int) {
	t.Helper()
	storetest.Must(t, db.SQL().Get(&n, "SELECT COUNT(*) FROM topic_members WHERE user_id = ?", user))
	return n
}

func change(add, remove []string) *api.TopicUsersRequest {
	return &api.TopicUsersRequest{Add: add, Remove: remove}
}

// TestP11_JoiningAndLeaving: a topic has the members who joined it last, however often.
func TestP11_JoiningAndLeaving(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		for _, user := range []string{"b", "B", "a", "b"} {
			mustJoin(t, db, user, "news")
		}
		mustJoin(t, db, "b", "News")
		if got := mustUsersOf(t, db, "news"); !slices.Equal(got, []string{"B", "a", "b"}) {
			t.Errorf("members %v", got)
		}
		first, err := db.TopicMembers(t.Context(), "news", "", 2)
		storetest.Must(t, err)
		rest, err := db.TopicMembers(t.Context(), "news", first[1].User, 2)
		storetest.Must(t, err)
		if len(first) != 2 || len(rest) != 1 || rest[0].User != "b" || rest[0].JoinedAt.IsZero() {
			t.Errorf("pages %v, %v", first, rest)
		}
		topics, err := db.UserTopics(t.Context(), "b", "News", 1)
		if err != nil || len(topics) != 1 || topics[0].Topic != "news" || topics[0].JoinedAt != rest[0].JoinedAt {
			t.Errorf("topics %v, %v", topics, err)
		}
		for _, user := range []string{"B", "a", "b", "b", "never"} {
			storetest.Must(t, db.LeaveTopic(t.Context(), user, "news"))
		}
		if got := mustUsersOf(t, db, "news"); len(got) != 0 {
			t.Errorf("members %v after all have left", got)
		}
		if got := mustUsersOf(t, db, "News"); !slices.Equal(got, []string{"b"}) {
			t.Errorf("members of the other topic %v", got)
		}
	})
}

// TestP11_MembersAreCountedUpToABound: a page of the list of topics reads so many members of each and no more.
func TestP11_MembersAreCountedUpToABound(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		fill := func(topic string, n int) {
			mustInsert(t, db, "topic_members (topic, user_id, joined_at)", n, func(i int) string { return fmt.Sprintf("('%s', 'u%05d', 1)", topic, i) })
		}
		fill("large", api.MaxTopicCount+2)
		fill("just", api.MaxTopicCount)
		mustFillTopics(t, db, "bob", 550) // more than one statement counts
		got, err := db.Topics(t.Context(), "", 501)
		storetest.Must(t, err)
		if len(got) != 501 || got[500] != (api.ListedTopic{Topic: "filler-0500", Members: 1}) {
			t.Errorf("%d topics, the last %+v", len(got), got[len(got)-1])
		}
		got, err = db.Topics(t.Context(), "filler-0548", 501)
		want := []api.ListedTopic{{Topic: "filler-0549", Members: 1}, {Topic: "just", Members: api.MaxTopicCount}, {Topic: "large", Members: api.MaxTopicCount, More: true}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	})
}

// TestP11_ChangesAreAllOrNone: one user who is in too many topics keeps everybody out and in.
func TestP11_ChangesAreAllOrNone(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		users := make([]string, api.MaxTopicChange)
		for i := range users {
			users[i] = fmt.Sprintf("u%04d", i)
		}
		mustJoin(t, db, "old", "news")
		for _, full := range []string{users[3], users[999]} {
			mustFillTopics(t, db, full, api.MaxTopics)
		}
		_, err := db.ChangeTopic(t.Context(), "news", change(users, []string{"old"}), api.Idempotency{})
		var no *api.Error
		if !errors.As(err, &no) || no.Code != api.CodeValidation || len(no.Fields) != 2 || no.Fields[0].Field != "add[3]" || no.Fields[1].Field != "add[999]" {
			t.Fatalf("refused with %+v", err)
		}
		if got := mustUsersOf(t, db, "news"); !slices.Equal(got, []string{"old"}) {
			t.Fatalf("%d members after a refusal", len(got))
		}
		for _, user := range []string{users[3], users[999]} {
			storetest.Must(t, db.LeaveTopic(t.Context(), user, "filler-0000"))
		}
		mustJoin(t, db, users[7], "news") // is a member already
		_, err = db.ChangeTopic(t.Context(), "news", change(users, []string{"old", "never"}), api.Idempotency{})
		storetest.Must(t, err)
		if got := mustUsersOf(t, db, "news"); !slices.Equal(got, users) {
			t.Fatalf("%d members, want %d", len(got), len(users))
		}
		_, err = db.ChangeTopic(t.Context(), "news", change(nil, users), api.Idempotency{})
		storetest.Must(t, err)
		if got := mustUsersOf(t, db, "news"); len(got) != 0 {
			t.Fatalf("%d members are left", len(got))
		}
	})
}

// TestP11_AtMostAThousandTopics: whichever of many calls come at the same time, a user gets into
// one more topic, the thousandth.
func TestP11_AtMostAThousandTopics(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		mustFillTopics(t, db, "bob", api.MaxTopics-1)
		const calls = 8
		errs := make([]error, calls)
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				topic := fmt.Sprint("topic-", i)
				if i%2 == 0 {
					errs[i] = db.JoinTopic(t.Context(), "bob", topic, false)
					return
				}
				_, errs[i] = db.ChangeTopic(t.Context(), topic, change([]string{fmt.Sprint("other-", i), "bob", "amy"}, nil), api.Idempotency{})
			})
		}
		all.Wait()
		joined := 0
		for i, err := range errs {
			switch {
			case err == nil:
				joined++
			case api.CodeOf(err) != api.CodeValidation:
				t.Errorf("call %d: %v", i, err)
			}
		}
		if n := mustCountTopics(t, db, "bob"); n != api.MaxTopics || joined != 1 {
			t.Errorf("in %d topics after %d of %d calls", n, joined, calls)
		}
		mustJoin(t, db, "bob", "filler-0007") // is in it
		storetest.WantCode(t, db.JoinTopic(t.Context(), "bob", "one more", false), api.CodeValidation)
	})
}

// TestP11_ARepeatChangesNothing: a repeat with the same key does not bring back who left since.
func TestP11_ARepeatChangesNothing(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		once := api.Idempotency{Scope: "s", Key: "k", Body: [32]byte{1}}
		for n := range 2 {
			replayed, err := db.ChangeTopic(t.Context(), "news", change([]string{"bob"}, nil), once)
			if err != nil || replayed != (n == 1) {
				t.Fatalf("call %d: %t, %v", n, replayed, err)
			}
			storetest.Must(t, db.LeaveTopic(t.Context(), "bob", "news"))
			if got := mustUsersOf(t, db, "news"); len(got) != 0 {
				t.Errorf("call %d: members %v", n, got)
			}
		}
		once.Body = [32]byte{2}
		_, err := db.ChangeTopic(t.Context(), "news", change([]string{"amy"}, nil), once)
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
	})
}

// TestU8_OnlyOpenTopicsAreJoined: the answer for a closed topic is the same whoever is in it, and
// once a topic is closed nobody gets in any more.
func TestU8_OnlyOpenTopicsAreJoined(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		mustJoin(t, db, "amy", "closed")
		mustJoin(t, db, "bob", "own")
		said := map[string]bool{}
		for _, topic := range []string{"closed", "own", "nowhere"} {
			err := db.JoinTopic(t.Context(), "bob", topic, true)
			storetest.WantCode(t, err, api.CodeForbidden)
			said[err.Error()] = true
		}
		if len(said) != 1 {
			t.Errorf("told apart: %v", said)
		}
		for range 2 {
			storetest.Must(t, db.SetTopicOpen(t.Context(), "news", true))
			storetest.Must(t, db.JoinTopic(t.Context(), "bob", "news", true))
		}
		for _, open := range []bool{true, false, false} {
			storetest.Must(t, db.SetTopicOpen(t.Context(), "news", open))
			if is, err := db.TopicOpen(t.Context(), "news"); err != nil || is != open {
				t.Errorf("open %t, %v; want %t", is, err, open)
			}
		}
		storetest.WantCode(t, db.JoinTopic(t.Context(), "amy", "news", true), api.CodeForbidden)
		if got := mustUsersOf(t, db, "news"); !slices.Equal(got, []string{"bob"}) {
			t.Errorf("members %v of a topic that was closed", got)
		}
	})
}

// TestU8_NobodyJoinsAClosedTopic: users join while the topic is closed; none of them comes after
// the call that closes it is answered.
func TestU8_NobodyJoinsAClosedTopic(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		storetest.Must(t, db.SetTopicOpen(t.Context(), "news", true))
		const users = 16
		var all sync.WaitGroup
		for i := range users {
			all.Go(func() {
				err := db.JoinTopic(t.Context(), fmt.Sprint("user-", i), "news", true)
				if err != nil && api.CodeOf(err) != api.CodeForbidden {
					t.Error(err)
				}
			})
		}
		storetest.Eventually(t, time.Minute, "somebody to be in", func() bool { return len(mustUsersOf(t, db, "news")) > 0 })
		storetest.Must(t, db.SetTopicOpen(t.Context(), "news", false))
		closed := mustUsersOf(t, db, "news")
		all.Wait()
		if got := mustUsersOf(t, db, "news"); !slices.Equal(got, closed) {
			t.Errorf("%d members, %d when it was closed", len(got), len(closed))
		}
	})
}

// TestP12_UsersWithADevice: each user with a device that is sent to is on one page, once, however
// many devices the user has and in whatever state the others are.
func TestP12_UsersWithADevice(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		states := []api.DeviceState{api.DeviceActive, api.DeviceSuspect, api.DeviceDropped}
		var want []string
		for i := range 40 {
			user := fmt.Sprintf("u%02d", i)
			for k := range i % 4 {
				state := states[(i+k*(i%3))%3] // some have several of one state
				d, _, _ := mustPut(t, db, user, token(10*i+k))
				if state != api.DeviceActive {
					mustSetState(t, db, d.Token, record.StateChange{State: state, Reason: "x", RegisteredAt: d.RegisteredAt})
				}
				if state != api.DeviceDropped && !slices.Contains(want, user) {
					want = append(want, user)
				}
			}
		}
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page, err := db.UsersWithDevice(t.Context(), "", after, 7)
			storetest.Must(t, err)
			got = append(got, page...)
			if len(page) < 7 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestP12_APageOfAllUsersCostsTheSameAnywhere: neither a page's place nor the users whose devices
// were all dropped make it dearer. MariaDB counts what it reads.
func TestP12_APageOfAllUsersCostsTheSameAnywhere(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.MySQL(t))
	const n, limit = 10_000, 50
	mustInsert(t, db, devicesInto, n, func(i int) string {
		states := []api.DeviceState{api.DeviceActive, api.DeviceSuspect, api.DeviceActive}
		if i > 1000 && i < 9000 {
			return deviceValues(i, api.DeviceDropped)
		}
		return deviceValues(i, states[i%3])
	})
	conn, err := db.SQL().Connx(t.Context())
	storetest.Must(t, err)
	defer conn.Close()
	for _, after := range []string{"", "u00990", "u09500"} {
		query, args := db.UsersWithDeviceQuery(after, limit)
		if page, read := mustCountReads(t, conn, query, args...); page != limit || read > 20*limit {
			t.Errorf("after %q: %d rows read for a page of %d", after, read, page)
		}
	}
}
