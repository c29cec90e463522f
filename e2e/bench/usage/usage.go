package usage

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/figures"
)

// ticks is the number of ticks per second in /proc. It does not depend on the kernel's clock.
const ticks = 100

// errProc means that /proc has an unexpected format.
var errProc = errors.New("unexpected format")

// Memory is the memory of a process in bytes.
type Memory struct {
	// Resident is the resident memory, Anonymous its part that is not file-backed, Peak the maximum of the
	// resident memory.
	Resident, Anonymous, Peak int64
}

// ProcessorTime returns the time that a process has spent in user and kernel mode.
func ProcessorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of a process: %w", err)
	}
	return parseStat(string(text))
}

func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name may contain blanks and parentheses
	if len(fields) < 13 {
		return 0, fmt.Errorf("parsing stat %q of a process: %w", text, errProc)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing the user time of a process: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing the system time of a process: %w", err)
	}
	return time.Duration(user+system) * time.Second / ticks, nil
}

// MemoryOf returns the current memory of a process.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, fmt.Errorf("reading the memory of a process: %w", err)
	}
	return parseStatus(string(text))
}

func parseStatus(text string) (Memory, error) {
	var m Memory
	found := 0
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &m.Resident, "RssAnon": &m.Anonymous, "VmHWM": &m.Peak}[key]
		if into == nil {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("parsing %s of a process: %w", key, err)
		}
		*into = kilobytes * 1024
		found++
	}
	if found != 3 {
		return Memory{}, fmt.Errorf("parsing the status of a process: found %d of 3 figures: %w", found, errProc)
	}
	return m, nil
}

// mebibytes converts bytes to mebibytes, rounded to a tenth.
func mebibytes(bytes int64) float64 { return figures.Round(float64(bytes)/(1<<20), 1) }

// Footprint is the memory of a process.
type Footprint struct {
	Resident  float64 `json:"vmRSSMiB"`
	Anonymous float64 `json:"rssAnonMiB"`
	Peak      float64 `json:"vmHWMMiB"`
}

// Of returns the memory of a process as it is printed.
func Of(pid int) (Footprint, error) {
	m, err := MemoryOf(pid)
	return Footprint{Resident: mebibytes(m.Resident), Anonymous: mebibytes(m.Anonymous), Peak: mebibytes(m.Peak)}, err
}
