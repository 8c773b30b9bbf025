package api

// Server is a running process of fanfare.
type Server struct {
	// ID is another one at each start. It begins with the name of the machine.
	ID string `json:"id"`
	// Addr is the process's FANFARE_ADDR, and PID its number on its machine.
	Addr    string   `json:"addr,omitempty"`
	PID     int      `json:"pid,omitempty"`
	Version string   `json:"version"`
	Roles   []string `json:"roles" enums:"api,push,jobs"`
	// Shards are the shards whose work the process does; none if it has the role api alone.
	Shards []int `json:"shards"`
	// DeliveredPerSecond is the process's mean over the last minute, a few seconds ago.
	DeliveredPerSecond float64 `json:"delivered_per_second"`
	StartedAt          Time    `json:"started_at" swaggertype:"string" format:"date-time"`
	SeenAt             Time    `json:"seen_at" swaggertype:"string" format:"date-time"`
}

// ServerList is the answer of GET /v1/servers, the oldest process first.
type ServerList struct {
	Items []Server `json:"items"`
}
