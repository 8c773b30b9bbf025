//go:build !linux

package storetest

import "os/exec"

// dieWithParent can do nothing here: servers end by the tests' clean-up.
func dieWithParent(*exec.Cmd) {}
