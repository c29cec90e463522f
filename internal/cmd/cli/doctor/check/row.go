package check

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Verdict is the result of a check. The words are stable.
type Verdict string

const (
	// OK means that the check found no problem.
	OK Verdict = "ok"
	// Warning means that something needs attention, but works.
	Warning Verdict = "warning"
	// Failed means that something does not work.
	Failed Verdict = "failed"
	// Skipped means that the facts of the check could not be read.
	Skipped Verdict = "skipped"
)

// rank orders verdicts, the worst first. Skipped counts as better than a warning.
func (v Verdict) rank() int {
	return slices.Index([]Verdict{Failed, Warning, Skipped, OK}, v)
}

// Object identifies an object of a cluster. The zero value means the cluster as a whole.
type Object struct {
	Kind string `json:"kind"`
	// Group is the API group, empty for the core group.
	Group     string `json:"group,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// OfFleet returns the identity of an object of the API group fleet.cattle.io.
func OfFleet(kind string, object metav1.Object) Object {
	return Object{Kind: kind, Group: fleet.GroupName, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// String returns kind, namespace and name.
func (o Object) String() string {
	if o.Kind == "" {
		return ""
	}
	return o.Kind + " " + o.fullName()
}

func (o Object) fullName() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// Resource returns the object as kubectl prints it with -o name.
func (o Object) Resource() string { return o.Type() + "/" + o.Name }

// Type returns the kind of the object as commands of kubectl take it.
func (o Object) Type() string {
	kind := strings.ToLower(o.Kind)
	if o.Group != "" {
		kind += "." + o.Group
	}
	return kind
}

// Row is one result of a check. Objects with the same problem share a row. The field names are stable.
type Row struct {
	// ID identifies the check.
	ID      string  `json:"id"`
	Verdict Verdict `json:"verdict"`
	// Object is the object with the problem, or the first of them.
	Object *Object `json:"object,omitempty"`
	// Count is the number of objects with the problem. It is absent if there is one.
	Count int `json:"count,omitempty"`
	// Examples are more objects with the problem.
	Examples []Object `json:"examples,omitempty"`
	// Cause says what is wrong and where. For the verdict ok it describes the object, or is empty.
	Cause string `json:"cause,omitempty"`
	// CauseVaries means that the cause is that of Object, and that another object has another one.
	CauseVaries bool `json:"causeVaries,omitempty"`
	// Fix is the command that fixes the problem of Object, or a sentence where no command does.
	Fix string `json:"fix,omitempty"`
	// FixVaries means that another object needs another fix.
	FixVaries bool `json:"fixVaries,omitempty"`
	// Docs is where the documentation explains the check.
	Docs string `json:"docs"`
	// Code is that of the Reason why the check was skipped.
	Code exit.Code `json:"-"`
	// key is that of Group.
	key string
}

// Ok returns a row for an object without a problem. cause describes the object.
func Ok(object Object, cause string) Row { return row(OK, object, cause, "") }

// Warn returns a row for a problem that needs attention.
func Warn(object Object, cause, fix string) Row { return row(Warning, object, cause, fix) }

// Fail returns a row for something that does not work.
func Fail(object Object, cause, fix string) Row { return row(Failed, object, cause, fix) }

func row(verdict Verdict, object Object, cause, fix string) Row {
	r := Row{Verdict: verdict, Cause: cause, Fix: fix}
	if object.Kind != "" {
		r.Object = &object
	}
	return r
}

const (
	// maxExamples is the number of objects that a row names besides the first.
	maxExamples = 3
	// maxCause is the length of a cause in bytes. Clusters choose many of the texts.
	maxCause = 512
)

// Group adds a row to those of a check, or counts its object in the row with the same key: objects with the same problem share the
// cause and the fix of the first one.
func Group(rows []Row, key string, added Row) []Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.key == key })
	if i < 0 {
		added.key = key
		return append(rows, added)
	}
	first := &rows[i]
	first.Count = max(first.Count, 1) + 1
	first.CauseVaries = first.CauseVaries || added.Cause != first.Cause
	first.FixVaries = first.FixVaries || added.Fix != first.Fix
	if len(first.Examples) < maxExamples && added.Object != nil {
		first.Examples = append(first.Examples, *added.Object)
	}
	return rows
}

// bounded returns a row whose texts cannot control the terminal.
func bounded(r Row) Row {
	r.Cause = foreign.Excerpt(r.Cause, maxCause)
	r.Fix = output.Line(r.Fix)
	return r
}
