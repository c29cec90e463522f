package faults

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Request is what an API server makes of a request to it.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb string
	// Group is the API's, "" for that of Kubernetes itself.
	Group string
	// Resource is the kind's, with the subresource if it is for one: "clusters", "clusters/status". It is "" for
	// what is about no resource, such as /readyz or discovery.
	Resource string
	// Namespace and Name are the object's; "" where the path has none, as the name of what is created.
	Namespace, Name string
	// Version is the resource version that a watch goes on from; "" where it begins with all there is.
	Version string
	// Path is that of the URL.
	Path string
}

// Writes says whether the request asks for a change.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// String is "patch clusters/status fleet-default/east".
func (r Request) String() string {
	if r.Resource == "" {
		return r.Verb + " " + r.Path
	}
	text := r.Verb + " " + r.Resource
	switch {
	case r.Namespace != "" && r.Name != "":
		return text + " " + r.Namespace + "/" + r.Name
	case r.Namespace != "":
		return text + " in " + r.Namespace
	case r.Name != "":
		return text + " " + r.Name
	}
	return text
}

// Read says what a request is about.
func Read(r *http.Request) Request {
	found := Request{Path: r.URL.Path}
	parts := found.readGroup(strings.Split(strings.Trim(r.URL.Path, "/"), "/"))
	// /namespaces/x is a namespace, /namespaces/x/status a subresource of it, /namespaces/x/secrets a kind in it.
	if len(parts) >= 3 && parts[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		found.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		found.Resource = parts[0]
	}
	if len(parts) > 1 {
		found.Name = parts[1]
	}
	if len(parts) > 2 {
		found.Resource += "/" + strings.Join(parts[2:], "/")
	}
	found.Verb = verb(r, found)
	if found.Verb == "watch" {
		found.readWatch(r.URL.Query())
	}
	return found
}

// readGroup takes the group and version off a path; nothing is left of a path to no resource.
func (r *Request) readGroup(parts []string) []string {
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		return parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		r.Group = parts[1]
		return parts[3:]
	}
	return nil
}

func (r *Request) readWatch(query url.Values) {
	if name, one := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name="); one {
		r.Name = name
	}
	if query.Get("sendInitialEvents") != "true" {
		r.Version = query.Get("resourceVersion")
	}
}

func verb(r *http.Request, found Request) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if found.Name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	switch watch := r.URL.Query().Get("watch"); {
	case watch == "true" || watch == "1":
		return "watch"
	case found.Resource != "" && found.Name == "":
		return "list"
	}
	return "get"
}
