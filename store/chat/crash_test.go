package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestKillBetweenAnyTwoSteps kills a process at each step of joining and of
// leaving: no member without a chat, no chat without members, and the index is
// repaired by reading.
func TestKillBetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	acts := map[string]func(w *world) error{
		"join":       func(w *world) error { _, _, err := w.Join(w.ctx(), w.id("c"), w.id("bob"), true); return err },
		"join again": func(w *world) error { _, _, err := w.Join(w.ctx(), w.id("c"), w.id("alice"), true); return err },
		"leave":      func(w *world) error { return w.Leave(w.ctx(), w.id("c"), w.id("alice")) },
		"leave last": func(w *world) error {
			return errors.Join(w.Leave(w.ctx(), w.id("c"), w.id("zoe")), w.Leave(w.ctx(), w.id("c"), w.id("alice")))
		},
		"create": func(w *world) error {
			_, _, err := w.Create(w.ctx(), &api.ChatRequest{ID: w.id("d"), Creator: w.id("bob"), Members: w.ids("alice")}, keyed(w.id("k"), "x"), false)
			return err
		},
	}
	for name, act := range acts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, Options{}, func(t *testing.T, w *world) {
				for n, finished := 0, false; !finished; n++ {
					if n > 40 {
						t.Fatal("no end after 40 contacts")
					}
					round := *w
					round.prefix = fmt.Sprint(w.prefix, n, "-")
					finished = round.killedAt(n, act)
				}
			})
		})
	}
}

// killedAt lets a process die at a contact, and checks what is left. It says
// whether the process came to its end before.
func (w *world) killedAt(n int, act func(*world) error) (finished bool) {
	w.t.Helper()
	w.mustCreate("c", "alice", "zoe")
	w.mustSend("c", "zoe", "hi")
	dying := storetest.DieAt(n)
	_ = act(w.another(dying.Fault))
	users := []string{"alice", "bob", "zoe"}
	inside := map[string][]string{"c": w.wantConsistent("c", users...), "d": w.wantConsistent("d", users...)}
	for _, user := range users {
		var want []string
		for _, chat := range []string{"c", "d"} {
			if slices.Contains(inside[chat], w.id(user)) {
				want = append(want, chat)
			}
		}
		w.wantListed(user, want)
		w.letGrowOld(user, inside)
		w.wantListed(user, want) // this reading repairs
		if got := fmt.Sprint(w.sortedIndex(user)); got != fmt.Sprint(want) {
			w.t.Fatalf("killed at %d: the index of %s has %v, he is in %v", n, user, got, want)
		}
	}
	storetest.Must(w.t, act(w)) // the client asks again
	w.wantConsistent("c", users...)
	w.wantConsistent("d", users...)
	return !dying.Dead()
}

// wantListed checks which chats a user's list has.
func (w *world) wantListed(user string, want []string) {
	w.t.Helper()
	items, _, err := w.UserChats(w.ctx(), w.id(user), "", 0)
	storetest.Must(w.t, err)
	var got []string
	for _, c := range items {
		got = append(got, c.ID[len(w.prefix):])
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Fatalf("%s is listed in %v, is in %v", user, got, want)
	}
}

func (w *world) sortedIndex(user string) []string {
	var out []string
	for _, chat := range w.db.Client().ZRange(w.ctx(), indexKey(w.id(user)), 0, -1).Val() {
		out = append(out, chat[len(w.prefix):])
	}
	slices.Sort(out)
	return out
}

// letGrowOld puts the entries that a crash left back by more than the age from
// which they may be repaired. Those of members keep their stamps.
func (w *world) letGrowOld(user string, inside map[string][]string) {
	w.t.Helper()
	for _, chat := range []string{"c", "d"} {
		if !slices.Contains(inside[chat], w.id(user)) {
			w.ageEntry(chat, user)
		}
	}
}

func (w *world) ageEntry(chat, user string) {
	w.t.Helper()
	c, key := w.db.Client(), indexKey(w.id(user))
	if stamp, err := c.ZScore(w.ctx(), key, w.id(chat)).Result(); err == nil {
		storetest.Must(w.t, c.ZAdd(w.ctx(), key, zed(stamp-float64(repairAge.Microseconds()), w.id(chat))).Err())
	}
}

// A young entry without a membership is a join under way: no reader drops it.
func TestRepairLeavesYoungEntries(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice")
		joining := w.another(func(script string, answered bool) error {
			if script == "member_join" && !answered {
				w.wantListed("bob", nil)
				w.wantPending("bob", "")
				if w.indexed("bob") != "c" {
					t.Error("a reader dropped the entry of a join under way")
				}
			}
			return nil
		})
		joining.mustJoin("c", "bob", false)
		w.wantListed("bob", []string{"c"})
	})
}

// An entry is dropped only if it is still the one that was read.
func TestRepairComparesTheStamp(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		dying := w.another(func(script string, _ bool) error {
			if script == "index_drop" {
				return storetest.ErrLost
			}
			return nil
		})
		dying.mustLeave("c", "bob") // dies between its steps
		w.ageEntry("c", "bob")
		repairing := w.another(func(script string, answered bool) error {
			if script == "index_drop" && !answered {
				w.mustJoin("c", "bob", false)
			}
			return nil
		})
		repairing.wantListed("bob", nil)
		w.wantListed("bob", []string{"c"})
	})
}

// A leave that is slow in taking the entry out spares that of the next join.
func TestLeaveNamesTheStamp(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		leaving := w.another(func(script string, answered bool) error {
			if script == "index_drop" && !answered {
				w.mustJoin("c", "bob", false)
			}
			return nil
		})
		leaving.mustLeave("c", "bob")
		w.wantListed("bob", []string{"c"})
	})
}

// A join that took so long that a reader took its entry for a dead one's writes
// it again.
func TestASlowJoinLooksAtTheIndexAgain(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice")
		slow := w.another(func(script string, answered bool) error {
			if script == "member_join" && !answered {
				w.ageEntry("c", "bob")
				w.wantListed("bob", nil)
				if w.indexed("bob") != "" {
					t.Error("the entry was not repaired: the test shows nothing")
				}
			}
			return nil
		})
		slow.mustJoin("c", "bob", false)
		w.wantListed("bob", []string{"c"})
	})
}

// A join that is held up while another of the same user comes and ends still ends with an
// entry, whichever of its steps the end of the other falls between.
func TestAJoinWhileAnotherIsEnded(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		ended := func(w *world) { // the user joins and leaves
			w.mustJoin("c", "bob", false)
			storetest.Must(t, w.Leave(t.Context(), w.id("c"), w.id("bob")))
		}
		w.mustCreate("c", "alice")
		slow := w.another(func(script string, answered bool) error {
			if script == "member_join" && !answered {
				ended(w)
			}
			return nil
		})
		slow.mustJoin("c", "bob", false)
		if w.indexed("bob") == "" {
			t.Error("the end of the other took the entry")
		}
		w.wantListed("bob", []string{"c"})

		// The other is ended, its entry still there; then comes the first one's membership
		// and what it writes, then the entry goes.
		w.mustCreate("d", "alice")
		done := make(chan struct{})
		late := w.another(func(script string, answered bool) error {
			if script == "index_drop" && !answered {
				<-done
			}
			return nil
		})
		left := make(chan error, 1)
		slow = w.another(func(script string, answered bool) error {
			if script != "member_join" || answered {
				return nil
			}
			w.mustJoin("d", "bob", false)
			go func() { left <- late.Leave(context.Background(), w.id("d"), w.id("bob")) }()
			storetest.Eventually(t, testPatience, "he has left", func() bool {
				_, facts, err := w.readChat(t.Context(), w.id("d"), w.id("bob"))
				return err == nil && len(facts) == 0
			})
			return nil
		})
		slow.mustJoin("d", "bob", false)
		close(done)
		storetest.Must(t, <-left)
		w.wantListed("bob", []string{"c", "d"})
	})
}

// Whatever a member does writes the entry that his index lacks, with the stamp
// of his join.
func TestEveryCallOfAMemberHealsHisIndex(t *testing.T) {
	t.Parallel()
	acts := map[string]func(w *world) error{
		"send": func(w *world) error { _, _, err := w.send("c", "bob", "hi"); return err },
		"ack":  func(w *world) error { _, err := w.ack("c", "bob", 0); return err },
		"join": func(w *world) error { _, _, err := w.Join(w.ctx(), w.id("c"), w.id("bob"), false); return err },
		"read": func(w *world) error { _, err := w.read("c", "bob", MessagesQuery{}); return err },
		"acks": func(w *world) error {
			_, err := w.Ack(w.ctx(), w.id("bob"), map[string]int64{w.id("c"): 0, w.id("nowhere"): 0}, nil)
			return err
		},
	}
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		c, key := w.db.Client(), indexKey(w.id("bob"))
		stamp := c.ZScore(t.Context(), key, w.id("c")).Val()
		for name, act := range acts {
			storetest.Must(t, c.Del(t.Context(), key).Err())
			storetest.Must(t, act(w))
			if !w.clustered && c.Exists(t.Context(), key).Val() == 0 {
				t.Errorf("%s did not add the missing entry", name)
			}
			storetest.Eventually(t, testPatience, name+" adds the missing entry", func() bool {
				if c.Exists(t.Context(), key).Val() == 0 {
					storetest.Must(t, act(w)) // the other master was slow to answer
				}
				return c.ZScore(t.Context(), key, w.id("c")).Val() == stamp
			})
		}
		storetest.Must(t, c.Del(t.Context(), key).Err())
		_, _, err := w.send("c", "eve", "hi")
		storetest.WantCode(t, err, api.CodeNotAMember)
		if w.indexed("eve") != "" {
			t.Error("a stranger's index has the chat")
		}
	})
}

// Of two joins at the same moment one joins, and index and membership end up
// with the same stamp: leaving leaves nothing behind.
func TestTwoJoinsAtOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice")
		chat, bob := w.id("c"), w.id("bob")
		stamps, err := w.addToIndexes(t.Context(), chat, bob) // the first join's first step
		storetest.Must(t, err)
		second := w.another(func(script string, answered bool) error {
			if script == "member_join" && !answered { // its second comes between the second join's
				_, err := w.db.List(t.Context(), redisdb.Write, w.chatCmd(t.Context(), w.joinScript, chat, bob, stamps[0], "", MembershipChannel(bob)))
				return err
			}
			return nil
		})
		if second.mustJoin("c", "bob", true) {
			t.Error("both joined")
		}
		m, _, err := w.Join(t.Context(), chat, bob, true)
		storetest.Must(t, err)
		if us := fmt.Sprint(m.JoinedAt.UnixMilli()); us != stamps[0][:len(us)] {
			t.Errorf("joined at %s, entered at %s", us, stamps[0])
		}
		w.mustLeave("c", "bob")
		if w.indexed("bob") != "" {
			t.Error("leaving left an entry in the index")
		}
	})
}
