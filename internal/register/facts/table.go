package facts

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errNoTable means that the API server did not answer with the requested table.
var errNoTable = errors.New("the response is not a table of nodes")

// nodes maps each node's name to its readiness.
type nodes struct {
	ready        map[string]bool
	name, status int // columns
}

// put adds or updates the nodes in the rows of a table. If gone is true, it removes them. In a watch, only the first event
// has columns.
func (n *nodes) put(table metav1.Table, gone bool) error {
	if table.Kind != "Table" {
		return errNoTable
	}
	if len(table.ColumnDefinitions) > 0 {
		n.name, n.status = column(table, "Name"), column(table, "Status")
	}
	for _, row := range table.Rows {
		if n.name < 0 || n.status < 0 || len(row.Cells) <= max(n.name, n.status) || n.name == n.status {
			return errNoTable
		}
		name, isText := row.Cells[n.name].(string)
		status, isTextToo := row.Cells[n.status].(string)
		if !isText || !isTextToo {
			return errNoTable
		}
		if gone {
			delete(n.ready, name)
			continue
		}
		n.ready[name] = isReady(status)
	}
	return nil
}

// column returns the index of a column, or -1.
func column(table metav1.Table, name string) int {
	return slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == name })
}

func (n *nodes) counts() (all, ready int32) {
	for _, isReady := range n.ready {
		all++
		if isReady {
			ready++
		}
	}
	return all, ready
}
