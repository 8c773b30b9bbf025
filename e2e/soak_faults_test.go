package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// soakFault is a fault and the slots that it affected.
type soakFault struct {
	fault
	slots []int
	// loses: notifications that were written to APNs and not recorded yet, or whose answer was
	// under way, may be sent again.
	loses bool
}

// trouble is a fault that can be begun and ended.
type trouble struct {
	what       string
	slots      []int
	loses      bool
	lasts      time.Duration
	begin, end func()
}

// frozen is the fault after which a process continues what it had begun.
const frozen = "SIGSTOP past the lease"

var allSlots = []int{0, 1, 2}

// storm is how long faults follow one another before everything must recover.
const storm = 20 * time.Second

// suffer causes faults until a given time: storms and, in a long soak, a calm after each.
func (s *soak) suffer(until time.Time) {
	r := rand.New(rand.NewPCG(s.seed, 1))
	for time.Now().Before(until) {
		for end := time.Now().Add(storm); time.Now().Before(end) && time.Now().Before(until); {
			s.strike(s.draw(r))
			<-time.After(time.Second + between(r, 3*time.Second))
		}
		if s.long {
			s.calm()
		}
	}
}

// between is a random time up to a limit, in steps, so that a seed repeats it.
func between(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most/time.Millisecond)+1)) * time.Millisecond
}

// draw chooses one or two faults.
func (s *soak) draw(r *rand.Rand) []trouble {
	first := s.trouble(r)
	if r.IntN(4) > 0 {
		return []trouble{first}
	}
	second := s.trouble(r)
	if first.what == second.what { // the end of one would end the other
		return []trouble{first}
	}
	return []trouble{first, second}
}

// strike causes faults at the same time, until the last one is over.
func (s *soak) strike(all []trouble) {
	from := len(s.faults)
	for _, f := range all {
		s.faults = append(s.faults, soakFault{now(f.what), f.slots, f.loses})
		s.count("fault: "+f.what, 1)
		f.begin()
	}
	order := []int{}
	for i := range all {
		order = append(order, i)
	}
	last := func(i int) time.Duration {
		if all[i].what == slotMoves {
			return time.Hour
		}
		return all[i].lasts
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(last(a), last(b)) })
	for _, i := range order {
		<-time.After(time.Until(s.faults[from+i].from.Add(all[i].lasts)))
		all[i].end()
		s.faults[from+i].to = time.Now()
	}
}

// trouble chooses a fault, the affected slots and the duration.
func (s *soak) trouble(r *rand.Rand) trouble {
	victim, lasts := r.IntN(3), between(r, 5*time.Second)
	choices := slices.Concat(s.processFaults(r, victim, lasts), s.redis.faults(s, r, victim, lasts), s.otherFaults(r, victim, lasts), s.refusals(victim, lasts))
	return choices[r.IntN(len(choices))]
}

// processFaults are those of fanfare's processes. Slot 0 is never killed, so that its memory can be measured.
func (s *soak) processFaults(r *rand.Rand, victim int, lasts time.Duration) []trouble {
	at, mortal := s.slots[victim], 1+r.IntN(2)
	kill := trouble{"kill -9 of a process", []int{mortal}, true, lasts / 4, func() { s.slots[mortal].now().kill() }, func() { s.slots[mortal].launch(s) }}
	freeze := trouble{frozen, []int{victim}, true, soakLease + time.Second + lasts/2,
		func() { _ = at.now().cmd.Process.Signal(syscall.SIGSTOP) }, func() { _ = at.now().cmd.Process.Signal(syscall.SIGCONT) }}
	return []trouble{kill, kill, kill, freeze, freeze}
}

// otherFaults are those of the database and of APNs.
func (s *soak) otherFaults(r *rand.Rand, victim int, lasts time.Duration) []trouble {
	return []trouble{
		{"kill -9 of MariaDB", allSlots, false, lasts, s.sql.Kill, s.sql.Restart},
		{"MariaDB switches over behind its address", allSlots, false, 0, s.sql.Switch, func() {}},
		s.badAPNs(r, lasts, []int{victim}, "lost connections", apnstest.Failing(apnstest.Drop), apnstest.Failing(apnstest.DropUntaken),
			apnstest.Failing(apnstest.Reset), apnstest.Failing(apnstest.GoAwayBefore), apnstest.Failing(apnstest.GoAwayAfter), apnstest.Failing(apnstest.GoAwayDrop)),
		s.badAPNs(r, lasts, allSlots, "503, 429 and 410", apnstest.Fail(503, "ServiceUnavailable"),
			apnstest.Answer{Status: 429, Reason: "TooManyRequests", RetryAfter: "1"}, apnstest.Gone("Unregistered", time.Time{})),
	}
}

// badAPNs answers every second request with one of some answers. Only tokens of phones that
// register again are refused as gone.
func (s *soak) badAPNs(r *rand.Rand, lasts time.Duration, slots []int, what string, answers ...apnstest.Answer) trouble {
	var n atomic.Uint64
	seed := r.Uint64()
	bad := func(req *apnstest.Request) (apnstest.Answer, bool) {
		dice := rand.New(rand.NewPCG(seed, n.Add(1)))
		a := answers[dice.IntN(len(answers))]
		if a.Status == 410 && !isFleeting(req.Token) {
			return apnstest.Answer{}, false
		}
		return a, dice.IntN(2) == 0
	}
	set := func(f func(*apnstest.Request) (apnstest.Answer, bool)) func() {
		return func() {
			for _, i := range slots {
				s.slots[i].apns.ScriptFunc(f)
			}
		}
	}
	return trouble{fmt.Sprint("APNs: ", what), slots, len(slots) == 1, lasts + time.Second, set(bad), set(nil)}
}

// calm waits until every process is ready, lets the traffic go on for a moment, stops it, and
// measures memory.
func (s *soak) calm() {
	s.heal()
	<-time.After(3 * time.Second)
	s.gate.Lock()
	defer s.gate.Unlock()
	s.eventually(2*time.Minute, "the work of a storm is done", func() bool { return s.left() == "" })
	s.flat.sample(s)
}
