package console

import (
	"fmt"

	"fanfare/api"
)

// verdict says in a sentence whether a user got an event, and if not, why. What holds for the user now may not have held
// when the event was targeted, which the page says.
func verdict(e api.UserEvent) string {
	count, last := map[api.NotificationState]int{}, api.UserNotification{}
	for _, n := range e.Notifications {
		count[n.State]++
		last = n
	}
	switch {
	case count[api.NotificationDelivered] > 0:
		return fmt.Sprintf("Yes: it was delivered to %s.", devices(count[api.NotificationDelivered]))
	case !over(e.State) || count[api.NotificationWaiting]+count[api.NotificationRetrying] > 0:
		return fmt.Sprintf("Not yet: the event is %s.", e.State)
	case len(e.Notifications) > 0 && !e.OutcomesKept:
		return fmt.Sprintf("Not known any more: a notification is %s%s, and another device may have got one.", last.State, because(last.Reason))
	case len(e.Notifications) > 0:
		return fmt.Sprintf("No: its notification is %s%s.", last.State, because(last.Reason))
	case !e.OutcomesKept:
		return "Not known any more."
	case e.State != api.EventDone:
		return fmt.Sprintf("No: the event is %s.", e.State)
	}
	return absent(e.User, e.Type, e.Now)
}

// because is a reason in parentheses, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// absent says why there is no notification to a user.
func absent(user, eventType string, now api.UserNow) string {
	switch {
	case now.IsActor != nil && *now.IsActor:
		return fmt.Sprintf("No: %s is the actor.", user)
	case now.OptedOut:
		return fmt.Sprintf("No: %s has opted out of %s.", user, eventType)
	case now.Muted != nil && *now.Muted:
		return fmt.Sprintf("No: %s has muted the event's object.", user)
	case len(now.Devices) == 0:
		return fmt.Sprintf("No: %s has no device.", user)
	}
	return fmt.Sprintf("No: there is no notification to %s, who was not in the audience, or was left out for a reason that no longer holds.", user)
}

func devices(n int) string {
	if n == 1 {
		return "one device"
	}
	return fmt.Sprintf("%d devices", n)
}
