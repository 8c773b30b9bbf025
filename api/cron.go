package api

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // the time zones, for images that have none

	"github.com/adhocore/gronx"
)

// Cron says when a schedule is due: five fields (minute, hour, day of the month, month, weekday) by the clocks of a
// time zone. As in other crons, a schedule with a day and a weekday is due if one of them matches, and if one of the two
// begins with `*`, if both match.
//
// A time of day that the clocks skip is due when it would have been without the change, and one that they show twice is
// due the first time (RFC 5545, 3.3.5). If the hour is `*`, however, the schedule is due in every hour that passes.
type Cron struct {
	text   string
	zone   *time.Location
	hourly bool // the hour is *
}

// MaxCron is the largest size of a cron expression, in bytes.
const MaxCron = 256

var (
	cronNumber = cronField("")
	// cronFields are the five fields in their order: what each is called, what it takes, and its form.
	cronFields = [...]struct {
		name, values string
		form         *regexp.Regexp
	}{
		{"minute", "0 to 59", cronNumber},
		{"hour", "0 to 23", cronNumber},
		{"day of the month", "1 to 31", cronNumber},
		{"month", "1 to 12, or jan to dec", cronField("|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec")},
		{"weekday", "0 to 7, or sun to sat", cronField("|sun|mon|tue|wed|thu|fri|sat")},
	}
	zoneName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)
)

// cronField matches a list of values, ranges and steps, or *. The library also takes L, W, # and ?, which other crons lack,
// and * in a list, where it does not say whether both days must match.
func cronField(names string) *regexp.Regexp {
	const item = `(\*/\d\d?|V(-V)?(/\d\d?)?)`
	one := strings.ReplaceAll(item, "V", `(\d\d?`+names+`)`)
	return regexp.MustCompile(`(?i)^(\*|` + one + `(,` + one + `)*)$`)
}

// validField reports whether the library takes each item of a field, as Segments gives it, at any time. It would not look
// at those after an item that is due.
func validField(field string, pos int) bool {
	var at gronx.SegmentChecker // at no time: whether it takes one item depends on none
	for item := range strings.SplitSeq(field, ",") {
		values, _, _ := strings.Cut(item, "/") // it takes 75/5 as a minute, and 0/2 as a day
		_, err := at.CheckDue(values, pos)
		_, wrong := at.CheckDue(item, pos)
		if err != nil || wrong != nil {
			return false
		}
	}
	return true
}

// ParseCron reads a cron expression and the name of a time zone in the IANA database; "" is UTC.
func ParseCron(text, zone string) (Cron, error) {
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) || len(text) > MaxCron {
		return Cron{}, fmt.Errorf("the cron %.300q does not have five fields", text)
	}
	for i, field := range cronFields {
		if !field.form.MatchString(fields[i]) {
			return Cron{}, fmt.Errorf("the field %q of a cron", fields[i])
		}
	}
	c := Cron{text: strings.Join(fields, " "), hourly: fields[1] == "*"}
	segments, err := gronx.Segments(c.text)
	if err != nil {
		return Cron{}, fmt.Errorf("the cron %q: %w", text, err)
	}
	for pos, field := range segments {
		if !validField(field, pos) {
			return Cron{}, fmt.Errorf("the field %q of a cron", field)
		}
	}
	if _, err := c.tick(time.Unix(0, 0).UTC()); err != nil {
		return Cron{}, err
	}
	if zone = cmp.Or(zone, "UTC"); len(zone) > MaxIdentifier || !zoneName.MatchString(zone) || zone == "Local" {
		return Cron{}, fmt.Errorf("the time zone %.200q", zone)
	}
	c.zone, err = time.LoadLocation(zone)
	return c, err
}

// validCron and validZone report whether ParseCron takes a cron, and a time zone.
func validCron(text string) bool {
	_, err := ParseCron(text, "")
	return err == nil
}

func validTimeZone(name string) bool {
	_, err := ParseCron("* * * * *", name)
	return err == nil
}

// cronMessage says what a cron expression that ParseCron refuses must be. It is shown after the field's name.
func cronMessage(text string) string {
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return "must be five fields: minute, hour, day of the month, month and weekday, such as 30 6 * * mon-fri"
	}
	for i, field := range cronFields {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = fields[i]
		if _, err := ParseCron(strings.Join(alone, " "), ""); err != nil {
			return fmt.Sprintf("has %q as its %s, which takes %s, and lists, ranges and steps of them", fields[i], field.name, field.values)
		}
	}
	return "is never due"
}

// Next is the first time after t at which the cron is due. It is an error if there is none in some hundred years.
func (c Cron) Next(t time.Time) (time.Time, error) {
	if t = t.In(c.zone); c.hourly {
		return c.nextHourly(t)
	}
	wall := clockOf(t)
	if change, _ := t.ZoneBounds(); !change.IsZero() && t.Sub(change) < 25*time.Hour {
		if before := clockOf(change.Add(-time.Second)); before.Before(wall) {
			wall = before // a time that was skipped may still be due
		}
	}
	var best time.Time
	next, err := c.tick(wall)
	for err == nil && (best.IsZero() || !next.After(clockOf(best))) {
		if at := c.when(next); at.After(t) && (best.IsZero() || at.Before(best)) {
			best = at
		}
		next, err = c.tick(next)
	}
	if best.IsZero() {
		return time.Time{}, err
	}
	return best, nil
}

// nextHourly is Next of a cron whose hour is *. It looks at one period after the other in which the clocks are not changed.
func (c Cron) nextHourly(t time.Time) (time.Time, error) {
	for period := t; ; {
		_, end := period.ZoneBounds()
		_, seconds := period.Zone()
		offset := time.Duration(seconds) * time.Second
		next, err := c.tick(t.UTC().Add(offset))
		if err != nil {
			return time.Time{}, err
		}
		if at := next.Add(-offset).In(c.zone); end.IsZero() || at.Before(end) {
			return at, nil
		}
		t, period = end.Add(-time.Second), end
	}
}

// tick is the next reading of a clock that matches, as a time in UTC: the library skips or repeats times where clocks are
// changed.
func (c Cron) tick(wall time.Time) (time.Time, error) {
	next, err := gronx.NextTickAfter(c.text, wall, false)
	if err != nil {
		return time.Time{}, fmt.Errorf("the cron %q is never due: %w", c.text, err)
	}
	return next, nil
}

// clockOf is what the clocks show at t, as a time in UTC.
func clockOf(t time.Time) time.Time {
	_, seconds := t.Zone()
	return t.UTC().Add(time.Duration(seconds) * time.Second)
}

// when is the first time at which the clocks show wall, or the time that would have shown it without a change that
// skips it.
func (c Cron) when(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, c.zone)
	if short := wall.Sub(clockOf(t)); short > 0 {
		return t.Add(short) // skipped, and time.Date took the offset after the change
	}
	if change, _ := t.ZoneBounds(); !change.IsZero() {
		_, offset := change.Add(-time.Second).Zone()
		if first := wall.Add(-time.Duration(offset) * time.Second).In(c.zone); first.Before(change) && clockOf(first).Equal(wall) {
			return first
		}
	}
	return t
}

// Latest is the last time up to now at which the cron was due. due is such a time, perhaps a long while ago.
func (c Cron) Latest(due, now time.Time) (time.Time, error) {
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if !from.After(due) {
			return c.lastFrom(due, now)
		}
		first, err := c.Next(from)
		if err != nil {
			return time.Time{}, err
		}
		if !first.After(now) {
			return c.lastFrom(first, now)
		}
	}
}

// lastFrom is the last due time up to now; due is one of them.
func (c Cron) lastFrom(due, now time.Time) (time.Time, error) {
	for {
		next, err := c.Next(due)
		if err != nil || next.After(now) {
			return due, err
		}
		due = next
	}
}
