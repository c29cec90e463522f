package facts

import (
	"errors"
)

// errNoTable means that the API server did not answer with the requested table.
var errNoTable = errors.New("the response is not a table of nodes")

// table contains the used fields of a Table. In a watch, only the first event has columns.
type table struct {
	Kind     string `json:"kind"`
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Columns []struct {
		Name string `json:"name"`
	} `json:"columnDefinitions"`
	Rows []struct {
		Cells []any `json:"cells"`
	} `json:"rows"`
}

// column returns the index of a column, or -1.
func (t table) column(name string) int {
	for i, column := range t.Columns {
		if column.Name == name {
			return i
		}
	}
	return -1
}

// nodes maps each node's name to its readiness.
type nodes struct {
	ready        map[string]bool
	name, status int // columns
}

// put adds or updates the nodes in the rows of a table. If gone is true, it removes them.
func (n *nodes) put(t table, gone bool) error {
	if t.Kind != "Table" {
		return errNoTable
	}
	if len(t.Columns) > 0 {
		n.name, n.status = t.column("Name"), t.column("Status")
	}
	for _, row := range t.Rows {
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

func (n *nodes) counts() (all, ready int32) {
	for _, isReady := range n.ready {
		all++
		if isReady {
			ready++
		}
	}
	return all, ready
}
