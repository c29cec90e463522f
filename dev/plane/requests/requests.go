// Package requests extracts from the hubs' audit logs which kinds of requests the controllers' ServiceAccount has
// sent. A test compares its rights with the rights that a whole test run used.
//
//	make test ─► FLEET_AUDIT_DIR ─► each package's planes ─► Record ─► one file per package ─► Read ─► charts
package requests

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Variable is the name of an environment variable: the directory in which tests record requests. If it is empty,
// nothing is recorded.
const Variable = "FLEET_AUDIT_DIR"

const (
	account = "fleet-controller"
	user    = "system:serviceaccount:cattle-fleet-system:" + account
)

// Policy makes an API server log the requests of the controllers' ServiceAccount. A watch is logged when its
// response starts: an API server that is killed does not log its end.
const Policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + user + `"]
- level: None
`

// Request is a kind of request that was allowed by a rule of the ServiceAccount's Role or ClusterRole.
type Request struct {
	Verb  string `json:"verb"`
	Group string `json:"group,omitempty"`
	// Resource includes the subresource, for example "clusters/status".
	Resource string `json:"resource"`
	// Name is set for the resources whose rules are limited to names, see named.
	Name string `json:"name,omitempty"`
	// Own is set for requests in the ServiceAccount's own namespace.
	Own bool `json:"own,omitempty"`
}

// Compare orders requests by resource, verb and name.
func (r Request) Compare(other Request) int {
	key := func(r Request) string {
		return fmt.Sprint(r.Resource, ".", r.Group, " ", r.Verb, " ", r.Name, " ", r.Own)
	}
	return cmp.Compare(key(r), key(other))
}

// named returns the resources whose rules may name objects. Requests for other resources are recorded without a
// name, because there are many objects.
func named() []string {
	return []string{"clusterroles", "customresourcedefinitions", "deployments", "leases"}
}

// event holds the parts of an audit log line that are used.
type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Object *struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

// request returns the kind of request of an event. It returns false for requests of other accounts, and for
// requests that another role allowed, such as the roles that every account has.
func (e event) request() (Request, bool) {
	allowed := e.Annotations["authorization.k8s.io/decision"] == "allow" &&
		strings.Contains(e.Annotations["authorization.k8s.io/reason"], `Role "`+account+`"`)
	if e.User.Username != user || e.Object == nil || !allowed {
		return Request{}, false
	}
	r := Request{
		Verb: e.Verb, Group: e.Object.Group, Resource: e.Object.Resource,
		Own: e.Object.Namespace != "" && strings.HasPrefix(user, "system:serviceaccount:"+e.Object.Namespace+":"),
	}
	if e.Object.Subresource != "" {
		r.Resource += "/" + e.Object.Subresource
	}
	if slices.Contains(named(), r.Resource) {
		r.Name = e.Object.Name
	}
	return r, true
}

// reduce returns the kinds of requests in an audit log. An incomplete last line is skipped.
func reduce(log io.Reader) (map[Request]bool, error) {
	found := map[Request]bool{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(line, []byte(user)) { // skips most lines, because decoding is slow
			continue
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		if r, is := e.request(); is {
			found[r] = true
		}
	}
}

// Record adds the kinds of requests in an audit log to the file of the calling process. The file is named after the
// working directory, which is the package's directory in tests. Files of earlier runs of the same package are removed. A missing
// log has no requests.
func Record(folder, log string) error {
	file, err := os.Open(log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	found, err := reduce(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("reading the audit log %s: %w", log, err)
	}
	own, err := ownFile(folder)
	if err != nil {
		return err
	}
	return add(own, found)
}

// ownFile returns the file of this process, and removes those of earlier processes of the same package.
func ownFile(folder string) (string, error) {
	where, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	name := url.PathEscape(where)
	own := filepath.Join(folder, fmt.Sprintf("%s.%d.json", name, os.Getpid()))
	old, err := filepath.Glob(filepath.Join(folder, name+".[0-9]*.json"))
	for _, path := range old {
		if path != own {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return own, err
}

func add(path string, found map[Request]bool) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("recording requests: %w", err)
	}
	encoder := json.NewEncoder(file)
	for r := range found {
		err = errors.Join(err, encoder.Encode(r))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("recording requests: %w", err)
	}
	return nil
}

// Read returns all kinds of requests that a test run recorded in a directory, sorted. It skips the files of packages
// whose directory no longer exists.
func Read(folder string) ([]Request, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("finding recorded requests: %w", err)
	}
	var all []Request
	for _, path := range files {
		if !current(path) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading recorded requests: %w", err)
		}
		for line := range bytes.Lines(text) {
			var r Request
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("reading recorded requests in %s: %w", path, err)
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, Request.Compare)
	return slices.Compact(all), nil
}

// current returns whether the package that has written a file still exists.
func current(path string) bool {
	name := strings.TrimSuffix(filepath.Base(path), ".json")
	where, err := url.PathUnescape(strings.TrimSuffix(name, filepath.Ext(name))) // without the process ID
	if err != nil {
		return false
	}
	_, err = os.Stat(where)
	return err == nil
}
