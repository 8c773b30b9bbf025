// Package delivery brings notifications to phones. It sends them through a
// transport.Sender and records what became of them (delivery.go, send.go): devices that
// are gone (device.go), devices that back off (backoff.go), apps that are paused
// (pause.go), and how much a process has in flight of each app (windows.go). It works on
// the queue of notifications, and sends what package targeting hands to it straight away
// (one_hop.go). A notification's platform says which sender gets it; today that is APNs
// for all (message.go).
package delivery
