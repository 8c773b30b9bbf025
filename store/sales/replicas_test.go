package sales

import (
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// mustReplicate starts a replica that has everything the master has.
func mustReplicate(t testing.TB, master *storetest.RedisServer) *storetest.RedisServer {
	t.Helper()
	replica := storetest.Redis(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", master.Port()))
	storetest.Eventually(t, patience, "the replica follows", func() bool {
		text, err := replica.Client().Info(t.Context(), "replication").Result()
		return err == nil && infoText(text, "master_link_status") == "up"
	})
	return replica
}

// S14: an answer means that a replica has it; without one in time it is
// unknown_outcome, and the same key finds out, once a replica has it.
func TestS14_ReplicasHaveIt(t *testing.T) {
	t.Parallel()
	master := storetest.Redis(t)
	replica := mustReplicate(t, master)
	s := setup(t)
	s.redisURL = master.URL()
	p, other := s.mustStart(Options{MinReplicas: 1}), s.mustStart(Options{MinReplicas: 1})
	p.mustPut(s.sale, request(5, 60_000, 1))
	r := p.mustBuy(s.sale, "u", 1)
	p.mustConfirm(s.sale, r.ID)
	key := "ff:{sale:" + s.sale + ":0}:book"
	if has, err := replica.Client().HExists(t.Context(), key, r.ID).Result(); err != nil || !has {
		t.Fatalf("the replica has not what was answered: %v %v", has, err)
	}

	replica.Pause()
	began := time.Now()
	_, err := p.buy(s.sale, "v", 2, "key")
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	if took := time.Since(began); took < time.Second/2 || took > 4*time.Second {
		t.Errorf("answered after %v", took)
	}
	// A replay has not been acknowledged either, also on a connection that wrote nothing.
	_, err = other.buy(s.sale, "v", 2, "key")
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	_, _, err = p.confirm(s.sale, r.ID)
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	began = time.Now()
	_, err = p.buy(s.sale, "w", 9) // changes nothing and waits for nobody
	storetest.WantCode(t, err, api.CodeSoldOut)
	if took := time.Since(began); took > time.Second/2 {
		t.Errorf("a refusal took %v", took)
	}
	replica.Resume()
	storetest.Eventually(t, patience, "the same key finds out", func() bool {
		_, replayed, err := p.Reserve(t.Context(), s.sale, &api.ReservationRequest{User: "v", Lines: []api.Line{{SKU: "s", Quantity: 2}}}, api.Idempotency{Scope: "test", Key: "key"})
		return err == nil && replayed
	})
	p.wantItem(s.sale, 2, 2, 1)
}

// S14: two replicas are asked for and there is one.
func TestS14_TooFewReplicas(t *testing.T) {
	t.Parallel()
	master := storetest.Redis(t)
	mustReplicate(t, master)
	s := setup(t)
	s.redisURL = master.URL()
	one, two := s.mustStart(Options{MinReplicas: 1}), s.mustStart(Options{MinReplicas: 2})
	one.mustPut(s.sale, request(5, 0, 1))
	_, err := two.buy(s.sale, "u", 1, "key")
	e := mustError(t, err, api.CodeUnknownOutcome)
	if e.Detail != "1 of 2 replicas have acknowledged the change" {
		t.Errorf("%q", e.Detail)
	}
	if _, err = one.buy(s.sale, "u", 1, "key"); err != nil {
		t.Error(err)
	}
	one.wantItem(s.sale, 4, 0, 1)
}

// S14: in a Cluster the master that has the key is asked, whichever that is. These
// have no replicas, and say so; a process that asks for none finds out.
func TestS14_Cluster(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.redisURL = storetest.Cluster(t).URL()
	none, one := s.mustStart(Options{}), s.mustStart(Options{MinReplicas: 1})
	none.mustPut(s.sale, request(30, 60_000, 4))
	for i := range 2 {
		user := fmt.Sprint("u", i)
		_, err := one.buy(s.sale, user, 2, "key")
		if e := mustError(t, err, api.CodeUnknownOutcome); e.Detail != "0 of 1 replicas have acknowledged the change" {
			t.Errorf("%q", e.Detail)
		}
		_, replayed, err := none.Reserve(t.Context(), s.sale, &api.ReservationRequest{User: user, Lines: []api.Line{{SKU: "s", Quantity: 2}}}, api.Idempotency{Scope: "test", Key: "key"})
		if err != nil || !replayed {
			t.Errorf("%v %v", replayed, err)
		}
	}
	none.wantItem(s.sale, 26, 4, 0)
}
