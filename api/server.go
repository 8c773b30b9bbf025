package api

// Server is a running process of fanfare.
type Server struct {
	// ID is another one at each start. It begins with the name of the machine.
	ID      string   `json:"id"`
	Version string   `json:"version"`
	Roles   []string `json:"roles" enums:"api,targeting,delivery,jobs"`
	// Shards are the shards whose work the process does; none if it has the role api alone.
	Shards    []int `json:"shards"`
	StartedAt Time  `json:"started_at" swaggertype:"string" format:"date-time"`
	SeenAt    Time  `json:"seen_at" swaggertype:"string" format:"date-time"`
}

// ServerList is the answer of GET /v1/servers, the oldest process first.
type ServerList struct {
	Items []Server `json:"items"`
}
