package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks is how many of the kernel's ticks make a second, in /proc: always, whatever the kernel's own clock.
const ticks = 100

// errProc means that /proc says something else than expected.
var errProc = errors.New("not understood")

// memory is a process's, in bytes.
type memory struct {
	// Resident is all of it that is in memory, Anonymous what of that is no file's, Peak the most that was resident.
	Resident, Anonymous, Peak int64
}

// processorTime is the time a process has spent in user and kernel mode.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading a process's time: %w", err)
	}
	return parseStat(string(text))
}

func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name may have blanks and parentheses
	if len(fields) < 13 {
		return 0, fmt.Errorf("a process's stat %q: %w", text, errProc)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a process's user time: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a process's system time: %w", err)
	}
	return time.Duration(user+system) * time.Second / ticks, nil
}

func memoryOf(pid int) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, fmt.Errorf("reading a process's memory: %w", err)
	}
	return parseStatus(string(text))
}

func parseStatus(text string) (memory, error) {
	var m memory
	found := 0
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &m.Resident, "RssAnon": &m.Anonymous, "VmHWM": &m.Peak}[key]
		if into == nil {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return memory{}, fmt.Errorf("a process's %s: %w", key, err)
		}
		*into = kilobytes * 1024
		found++
	}
	if found != 3 {
		return memory{}, fmt.Errorf("a process's status has %d of 3 figures: %w", found, errProc)
	}
	return m, nil
}

// mebibytes of bytes, to a tenth.
func mebibytes(bytes int64) float64 { return round(float64(bytes)/(1<<20), 1) }
