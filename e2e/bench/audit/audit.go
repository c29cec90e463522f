package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Policy makes an API server log each request once when it ends, and each watch also when it starts, so that open
// watches are in the log.
const Policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
`

// started is the stage of a watch that was answered and is open.
const started = "ResponseStarted"

// Event is the used part of a log line.
type Event struct {
	Stage     string    `json:"stage"`
	Verb      string    `json:"verb"`
	UserAgent string    `json:"userAgent"`
	Received  time.Time `json:"requestReceivedTimestamp"`
	Ended     time.Time `json:"stageTimestamp"`
	URI       string    `json:"requestURI"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// Parse parses a log line.
func Parse(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("parsing a line of the audit log: %w", err)
	}
	return e, nil
}

// Counts reports whether the line is to be counted. A watch has two lines, one when it is answered and one when
// it ends. Only the first one is counted.
func (e Event) Counts() bool {
	if e.Verb == "watch" {
		return e.Stage == started
	}
	return e.Stage != started
}

// Resource returns the resource with its subresource, for example "clusters/status". Without a resource it
// returns the path.
func (e Event) Resource() string {
	switch {
	case e.Object.Resource == "":
		path, _, _ := strings.Cut(e.URI, "?")
		return path
	case e.Object.Subresource != "":
		return e.Object.Resource + "/" + e.Object.Subresource
	}
	return e.Object.Resource
}

// Kind returns the kind of the request, sent by who.
func (e Event) Kind(who Identity) Kind {
	return Kind{Identity: who, Verb: e.Verb, Resource: e.Resource()}
}

// IsRefused reports whether the request failed.
func (e Event) IsRefused() bool { return e.Response.Code >= 400 }
