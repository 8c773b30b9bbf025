package targeting_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// TestAPartThatWaitsReadsNoSettings: while the app of a large audience has no room, the parts wait,
// and the settings of their users are not read at each try.
func TestAPartThatWaitsReadsNoSettings(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	p := setup(t, options{db: storetest.Open(t, server.URL()), idle: true, delivery: func(o *delivery.Options) { o.InFlight = 200 }})
	const fans = 400 // four parts, of which one has room
	p.mustManyDevices(fans)
	p.apns.ScriptTopic(apnstest.DefaultTopic, apnstest.Answer{Delay: 2500 * time.Millisecond})
	var users []string
	for n := range fans {
		users = append(users, fmt.Sprintf("fan%06d", n))
	}
	id := p.mustPost(hello(users...))
	storetest.Must(t, server.Client().ConfigResetStat(t.Context()).Err())
	p.first.start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{fans, fans, fans, 0, 0})
	stats, err := server.Client().Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
	found := regexp.MustCompile(`cmdstat_hmget:calls=(\d+)`).FindStringSubmatch(stats)
	if found == nil {
		t.Fatal("no settings were read")
	}
	// The settings are read once to be refused and once to be sent, and again for parts that take
	// turns.
	n, _ := strconv.Atoi(found[1])
	t.Logf("%d readings for %d users", n, fans)
	if n > 3*fans {
		t.Errorf("the settings of %d users were read %d times", fans, n)
	}
}
