//go:build race

package delivery_test

// raceEnabled: the race detector makes everything several times slower, so
// that promises about time are only measured without it.
const raceEnabled = true
