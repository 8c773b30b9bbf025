// Package exchange has what the senders share whose services speak HTTP/2. An Exchange takes one
// notification over the connections of delivery/h2 to its answer (exchange.go). The rest reads what
// configurations name (config.go) and what answers have in common (answer.go). The package knows no
// push service.
package exchange
