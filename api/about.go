package api

// About is the answer of GET /v1/about: the process that answers.
type About struct {
	// Version is that of the program.
	Version string `json:"version" example:"v0.1.0"`
	// Commit is what the program was built from, if the build knew it.
	Commit string `json:"commit,omitempty" example:"0f3e2d1c4b5a"`
	// GoVersion is the version of Go that built it.
	GoVersion string `json:"go_version" example:"go1.26.8"`
	// Settings are the variables of its configuration, in the order of the documents.
	Settings []Setting `json:"settings"`
}

// Setting is a variable of the configuration.
type Setting struct {
	Name string `json:"name" example:"FANFARE_SHARDS"`
	// Value is its value in force. Passwords in it are masked.
	Value string `json:"value" example:"8"`
	// Set reports whether the value is another one than the default.
	Set bool `json:"set"`
}
