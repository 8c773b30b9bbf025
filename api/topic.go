package api

// The limits of topics.
const (
	MaxTopics      = 1000    // per user
	MaxTopicChange = 1000    // users that one call adds to a topic, and as many that it removes
	MaxTopicBody   = 1 << 20 // bytes of POST /v1/topics/{topic}/users
	MaxTopicCount  = 1000    // members of a topic that the list of topics counts
)

// TopicRequest is the body of PUT /v1/topics/{topic}.
type TopicRequest struct {
	// Open lets users join by themselves, with a user token.
	Open *bool `json:"open" validate:"required" example:"true"`
}

// Topic is the answer of GET /v1/topics/{topic}.
type Topic struct {
	Topic string `json:"topic" example:"news"`
	Open  bool   `json:"open" example:"true"`
}

// ListedTopic is a topic that has members or is open.
type ListedTopic struct {
	Topic string `json:"topic" example:"news"`
	Open  bool   `json:"open" example:"true"`
	// Members is the number of members, up to MaxTopicCount.
	Members int64 `json:"members" example:"42"`
	// More says that there are more members than were counted.
	More bool `json:"more,omitempty"`
}

// TopicList is the answer of GET /v1/topics.
type TopicList struct {
	Items []ListedTopic `json:"items"`
	Next  string        `json:"next,omitempty"`
}

// TopicUsersRequest is the body of POST /v1/topics/{topic}/users: who joins the topic and who
// leaves it. No user is named twice.
type TopicUsersRequest struct {
	Add    []string `json:"add,omitempty" validate:"omitempty,max=1000,dive,identifier" example:"bob"`
	Remove []string `json:"remove,omitempty" validate:"omitempty,max=1000,dive,identifier"`
}

// TopicUser is a member of a topic.
type TopicUser struct {
	User     string `json:"user" example:"bob"`
	JoinedAt Time   `json:"joined_at" swaggertype:"string" format:"date-time"`
}

// TopicUserList is the answer of GET /v1/topics/{topic}/users.
type TopicUserList struct {
	Items []TopicUser `json:"items"`
	Next  string      `json:"next,omitempty"`
}

// UserTopic is a topic that a user is in.
type UserTopic struct {
	Topic    string `json:"topic" example:"news"`
	JoinedAt Time   `json:"joined_at" swaggertype:"string" format:"date-time"`
}

// UserTopicList is the answer of GET /v1/users/{user}/topics.
type UserTopicList struct {
	Items []UserTopic `json:"items"`
	Next  string      `json:"next,omitempty"`
}
