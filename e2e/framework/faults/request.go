package faults

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Request describes a request in the API server's terms.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb string
	// Group is the API group. It is empty for the core group.
	Group string
	// Resource includes the subresource: "clusters", "clusters/status". It is empty for requests without a
	// resource, such as /readyz or discovery.
	Resource string
	// Namespace and Name are the object's. They are empty if the path does not contain them, such as the name of
	// an object to create.
	Namespace, Name string
	// Version is the resource version from which a watch continues. It is empty if the watch starts with all
	// objects.
	Version string
	// Path is the URL's path.
	Path string
}

// Writes reports whether the request changes something.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// String returns for example "patch clusters/status fleet-default/east".
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

// Read returns the description of an HTTP request.
func Read(r *http.Request) Request {
	found := Request{Path: r.URL.Path}
	parts := found.readGroup(strings.Split(strings.Trim(r.URL.Path, "/"), "/"))
	// /namespaces/x is a Namespace, /namespaces/x/status its subresource, and /namespaces/x/secrets a resource in
	// it.
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

// readGroup removes group and version from a path. It returns nothing for a path without a resource.
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
