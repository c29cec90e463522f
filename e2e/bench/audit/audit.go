// Package audit counts requests in an API server's audit log: who sent how many of what, and how many were refused.
//
//	a line of the log ─► Event ─► Classifier: whose it is ─► Counts, by identity, verb and resource
package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Policy makes an API server log each request once when it ends, and each watch also when it begins: a watch that goes
// on is in the log all the same.
const Policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
`

// started is the stage in which a watch has been answered and goes on.
const started = "ResponseStarted"

// Event is what is counted of a line.
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

// Parse reads a line.
func Parse(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("reading a line of the audit log: %w", err)
	}
	return e, nil
}

// Counts tells whether the line stands for its request: a watch has a line when it is answered and another one when it
// ends, whatever the answer is.
func (e Event) Counts() bool {
	if e.Verb == "watch" {
		return e.Stage == started
	}
	return e.Stage != started
}

// Resource is what the request is about, "clusters/status"; the path where it is no resource.
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

// Kind is the kind of request it is, sent by who.
func (e Event) Kind(who Identity) Kind {
	return Kind{Identity: who, Verb: e.Verb, Resource: e.Resource()}
}

// IsRefused tells whether the answer was an error.
func (e Event) IsRefused() bool { return e.Response.Code >= 400 }
