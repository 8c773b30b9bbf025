package main

import "fmt"

// stateKey is the key of the state of a user's index of recent contacts, as store/contacts has it.
func stateKey(user string) string { return fmt.Sprintf("ff:{c:%s}:state", user) }

// fanSettings matches the keys under which store/devices caches settings of the followers.
const fanSettings = "ff:{u:fan-*}:settings"
