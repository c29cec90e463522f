package footprint

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// smaps is of an agent, shortened: the executable in three mappings, the heap, and a library that was changed.
const smaps = `00400000-01e6f000 r-xp 00000000 08:01 42                         /usr/bin/agent
Size:              27068 kB
Rss:               20732 kB
Shared_Dirty:          0 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
Swap:                  0 kB
Locked:                0 kB
THPeligible:           0
VmFlags: rd ex mr mw me
01e6f000-03bab000 r--p 01a6f000 08:01 42                         /usr/bin/agent
Rss:               22252 kB
Anonymous:             0 kB
03bab000-03cb6000 rw-p 037ab000 08:01 42                         /usr/bin/agent
Anonymous:           284 kB
03cb6000-05d00000 rw-p 00000000 00:00 0 
Anonymous:          1024 kB
c000000000-c000c00000 rw-p 00000000 00:00 0                      [anon: Go: heap]
Anonymous:         14096 kB
7ffc8a000000-7ffc8a021000 r--p 00000000 08:01 43                 /usr/lib/a library.so (deleted)
Anonymous:             8 kB
7ffc8b000000-7ffc8b001000 r-xp 00000000 08:01 43                 /usr/lib/a library.so (deleted)
Anonymous:             0 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]
Anonymous:             0 kB
`

func TestPagesThatAreTheFiles(t *testing.T) {
	for name, test := range map[string]struct {
		smaps, path string
		want        []mapping
	}{
		"code and constants of the executable": {smaps, "/usr/bin/agent", []mapping{
			{Start: 0x400000, End: 0x1e6f000, Path: "/usr/bin/agent"}, {Start: 0x1e6f000, End: 0x3bab000, Path: "/usr/bin/agent"},
		}},
		"a file with a blank that is gone, where nothing was written": {smaps, "/usr/lib/a library.so (deleted)", []mapping{
			{Start: 0x7ffc8b000000, End: 0x7ffc8b001000, Path: "/usr/lib/a library.so (deleted)"},
		}},
		"another file":    {smaps, "/usr/bin/age", nil},
		"what is no file": {smaps, "[anon: Go: heap]", nil},
		"no mappings":     {"", "/usr/bin/agent", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clean(strings.NewReader(test.smaps), test.path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" && len(test.want)+len(got) > 0 {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPagesThatWereWrittenStay: what is read-only now may have been relocated when the process began.
func TestPagesThatWereWrittenStay(t *testing.T) {
	const head = "00400000-01e6f000 r--p 00000000 08:01 42 /usr/bin/agent\n"
	for line, want := range map[string]int{
		"Anonymous:             0 kB": 1,
		"Anonymous:             4 kB": 0,
		"Private_Dirty:         4 kB": 1,
		"Shared_Dirty:          4 kB": 1,
		"Swap:                  4 kB": 0,
		"Locked:             2048 kB": 0,
		"Private_Clean:      2048 kB": 1,
		"Rss:                2048 kB": 1,
		"":                            1,
	} {
		t.Run(line, func(t *testing.T) {
			got, err := clean(strings.NewReader(head+line+"\n"), "/usr/bin/agent")
			if err != nil || len(got) != want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestMappingsThatAreNotUnderstood(t *testing.T) {
	for name, test := range map[string]struct {
		smaps string
		is    error
	}{
		"too few fields":     {"00400000-01e6f000 r-xp\n", errMappings},
		"no range":           {"00400000 r-xp 00000000 08:01 42 /usr/bin/agent\n", errMappings},
		"other permissions":  {"00400000-01e6f000 read 0000 08:01 42 /usr/bin/agent\n", nil},
		"longer permissions": {"00400000-01e6f000 read-write 0000 08:01 42 /usr/bin/agent\n", errMappings},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := clean(strings.NewReader(test.smaps), "/usr/bin/agent"); !errors.Is(err, test.is) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, head := range []string{"x-01e6f000", "00400000-y"} {
		if got, err := clean(strings.NewReader(head+" r-xp 00000000 08:01 42 /usr/bin/agent\n"), "/usr/bin/agent"); err == nil {
			t.Errorf("%s: %v", head, got)
		}
	}
}
