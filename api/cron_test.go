package api

import (
	"testing"
	"time"
)

// mustTimes are the first due times of a cron after a time, in its zone.
func mustTimes(t *testing.T, text, zone, after string, n int) (all []string) {
	t.Helper()
	c, err := ParseCron(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, after)
	for range n {
		if err == nil {
			at, err = c.Next(at)
		}
		if err != nil {
			t.Fatalf("%s in %s: %v", text, zone, err)
		}
		all = append(all, at.Format("01-02T15:04Z07"))
	}
	return all
}

func TestParseCron(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"* * * * *", "0 0 29 2 *", "0 0 29 2 */7", "59 23 31 12 7", " 5,10-20/3   */2 1 JAN-mar,dec Mon-fri ", "0 0 31 2 1",
		"*/15,7 * * * *", "0 0 * * 7-2", "0 0 * * fri-7/2,1", "50/5 * * * *", "0/15 0/6 * * 0/2", "0 0 */2,31 * *",
	} {
		if !validCron(text) {
			t.Errorf("%q is refused", text)
		}
	}
	for _, text := range []string{
		"", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 8", "a * * * *",
		"*/0 * * * *", "5-1 * * * *", "1,,2 * * * *", "-5 * * * *", "+5 * * * *", "? * * * *", "* * L * *", "* * 15W * *", "* * * * 5#3", "mon * * * *",
		"* * * mon *", "* * * * jan", "0 0 30 2 *", "0 0 31 4,6 *", "TZ=UTC * * * *", "٣ * * * *", "1 * * * *\x00",
		"0-59,75 * * * *", "75,0-59 * * * *", "* 0-23,24 * * *", "* * 1-31,0 * *", "* * * 1-12,13 *", "* * * * 0-7,8", "0-59,5-1 * * * *", "0-59,*/0 * * * *",
		"75/5 * * * *", "0,75/5 * * * *", "0-75/5 * * * *", "* * 0/2 * *", "* * * 0/2 *", "0 0 13 * *,1", "0 0 13 * 1,*", "*,5 * * * *",
	} {
		if validCron(text) {
			t.Errorf("%q is taken", text)
		}
	}
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"} {
		if !validTimeZone(zone) {
			t.Errorf("%q is refused", zone)
		}
	}
	for _, zone := range []string{"Local", "localtime", "Europe/Atlantis", "../etc/passwd", "/etc/localtime", "Europe/", "europe/berlin", "+01:00", "Europe/Berlin "} {
		if validTimeZone(zone) {
			t.Errorf("%q is taken", zone)
		}
	}
}

// J10: when the clocks are changed, a time of day is due once, and a cron for every hour is due in every hour that passes.
func TestJ10_WhenTheClocksAreChanged(t *testing.T) {
	t.Parallel()
	const berlin, spring, autumn = "Europe/Berlin", "2026-03-29T00:00:00+01:00", "2026-10-25T00:00:00+02:00"
	for _, test := range []struct {
		cron, zone, after string
		want              []string
	}{
		{"30 2 * * *", berlin, spring, []string{"03-29T03:30+02", "03-30T02:30+02"}},
		{"30 2,3 * * *", berlin, spring, []string{"03-29T03:30+02", "03-30T02:30+02"}},
		{"0 3 * * *", berlin, spring, []string{"03-29T03:00+02", "03-30T03:00+02"}},
		{"0 */2 * * *", berlin, spring, []string{"03-29T03:00+02", "03-29T04:00+02", "03-29T06:00+02"}},
		{"*/30 * * * *", berlin, "2026-03-29T01:00:00+01:00", []string{"03-29T01:30+01", "03-29T03:00+02", "03-29T03:30+02"}},
		{"30 2 * * *", berlin, autumn, []string{"10-25T02:30+02", "10-26T02:30+01"}},
		{"30 2 * * *", berlin, "2026-10-25T02:10:00+01:00", []string{"10-26T02:30+01"}},
		{"0 3 * * *", berlin, autumn, []string{"10-25T03:00+01", "10-26T03:00+01"}},
		{"*/30 2 * * *", berlin, autumn, []string{"10-25T02:00+02", "10-25T02:30+02", "10-26T02:00+01"}},
		{"30 * * * *", berlin, "2026-10-25T01:00:00+02:00", []string{"10-25T01:30+02", "10-25T02:30+02", "10-25T02:30+01", "10-25T03:30+01"}},
		{"0 * 25 10 *", berlin, "2026-10-25T02:00:00+02:00", []string{"10-25T02:00+01", "10-25T03:00+01"}},
		{"30 2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00", []string{"03-08T03:30-04", "03-09T02:30-04"}},
		{"30 1 * * *", "America/New_York", "2026-11-01T00:00:00-04:00", []string{"11-01T01:30-04", "11-02T01:30-05"}},
		{"10,35 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", []string{"10-04T02:35+11", "10-04T02:40+11", "10-05T02:10+11"}},
		{"30 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", []string{"11-04T01:30-02", "11-05T00:30-02"}},
		{"0 8 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", []string{"12-31T08:00+14", "01-01T08:00+14"}},
		{"0 0 1 1 *", "", "2026-06-01T00:00:00Z", []string{"01-01T00:00Z", "01-01T00:00Z"}},
	} {
		got := mustTimes(t, test.cron, test.zone, test.after, len(test.want))
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s in %s: %v, want %v", test.cron, test.zone, got, test.want)
				break
			}
		}
	}
}

// Whatever the zone, the due times rise, and every time of day is due once a day.
func TestCronIsDueOnceADay(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"} {
		for _, text := range []string{"5 0 * * *", "30 1 * * *", "0 2 * * *", "45 2 * * *", "0 3 * * *"} {
			c, err := ParseCron(text, zone)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Date(2017, 1, 1, 12, 0, 0, 0, time.UTC)
			for n := range 800 {
				next, err := c.Next(at)
				if gap := next.Sub(at); err != nil || n > 0 && (gap < 22*time.Hour || gap > 26*time.Hour) {
					t.Fatalf("%s in %s: %s after %s, %v", text, zone, next, at, err)
				}
				at = next
			}
		}
	}
}

func TestCronLatest(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 15, 12, 0, 30, 0, time.UTC)
	for text, want := range map[string]string{
		"* * * * *": "2026-08-15T12:00:00Z", "0 * * * *": "2026-08-15T12:00:00Z", "* 3 * * *": "2026-08-15T03:59:00Z", "0 0 1 1 *": "2026-01-01T00:00:00Z", "0 0 29 2 *": "2024-02-29T00:00:00Z",
	} {
		c, err := ParseCron(text, "")
		if err != nil {
			t.Fatal(err)
		}
		due, err := c.Next(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Latest(due, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
		if got, err := c.Latest(due, due); err != nil || !got.Equal(due) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}
