package main

import "fmt"

// stateKey is the record of a user's index of recent contacts, which store/contacts
// makes.
func stateKey(user string) string { return fmt.Sprintf("ff:{c:%s}:state", user) }

// fanSettings matches what is cached of the followers' settings by store/devices.
const fanSettings = "ff:{u:fan-*}:settings"
