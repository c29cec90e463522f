package footprint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// errMappings means that the kernel uses an unknown format for mappings.
var errMappings = errors.New("unknown format")

// mapping is a range of the process's addresses.
type mapping struct {
	Start, End uint64
	// Writable reports whether the range can be written. Modified reports whether it has pages that differ from the
	// file, which cannot be read from the file again.
	Writable, Modified bool
	Path               string
}

// clean returns the mappings of a file whose pages are all unmodified, so that they can be dropped. smaps is the
// content of /proc/self/smaps.
func clean(smaps io.Reader, path string) ([]mapping, error) {
	var found []mapping
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		m, ok, err := parseHead(lines.Text())
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, m)
			continue
		}
		if len(found) > 0 && holdsPages(lines.Text()) {
			found[len(found)-1].Modified = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the mappings: %w", err)
	}
	kept := found[:0]
	for _, m := range found {
		if m.Path == path && !m.Writable && !m.Modified {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// parseHead parses the first line of a mapping, "00400000-01e6f000 r-xp 00000000 08:01 42  /bin/agent". ok is
// false for the lines after it, such as "Rss:  1024 kB".
func parseHead(line string) (m mapping, ok bool, err error) {
	fields := strings.Fields(line)
	if len(fields) == 0 || strings.HasSuffix(fields[0], ":") {
		return m, false, nil
	}
	start, end, isRange := strings.Cut(fields[0], "-")
	if len(fields) < 5 || !isRange || len(fields[1]) != 4 {
		return m, false, fmt.Errorf("a mapping %q: %w", line, errMappings)
	}
	if m.Start, err = strconv.ParseUint(start, 16, 64); err != nil {
		return m, false, fmt.Errorf("the start of a mapping: %w", err)
	}
	if m.End, err = strconv.ParseUint(end, 16, 64); err != nil {
		return m, false, fmt.Errorf("the end of a mapping: %w", err)
	}
	m.Writable = fields[1][1] == 'w'
	m.Path = strings.Join(fields[5:], " ")
	return m, true, nil
}

// holdsPages reports whether a line counts pages that differ from the file (in memory or swapped out) or that
// are locked. Dirty pages do not count: pages of a file that was just written are dirty, too.
func holdsPages(line string) bool {
	name, value, _ := strings.Cut(line, ":")
	switch name {
	case "Anonymous", "Swap", "Locked":
		return strings.TrimSpace(value) != "0 kB"
	}
	return false
}
