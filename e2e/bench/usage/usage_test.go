package usage

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestProcessorTime_ParsesStat(t *testing.T) {
	const fields = " S 1 2 3 4 5 6 7 8 9 10 120 35 16 17 18"
	tests := map[string]struct {
		text string
		want time.Duration
		bad  bool
	}{
		"user and system time":             {text: "42 (fleetcontroller)" + fields, want: 1550 * time.Millisecond},
		"name with blanks and parentheses": {text: "42 (a (b) c d)" + fields, want: 1550 * time.Millisecond},
		"line is too short: error":         {text: "42 (a) S 1 2", bad: true},
		"empty text: error":                {text: "", bad: true},
		"invalid user time: error":         {text: "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 35 16", bad: true},
		"invalid system time: error":       {text: "42 (a) S 1 2 3 4 5 6 7 8 9 10 120 x 16", bad: true},
		"process without processor time":   {text: "42 (a) S 1 2 3 4 5 6 7 8 9 10 0 0 16"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(test.text)
			if got != test.want || (err != nil) != test.bad {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestMemory_ParsesStatus(t *testing.T) {
	const status = "Name:\tfleetcontroller\nVmPeak:\t 1324076 kB\nVmHWM:\t   83864 kB\nVmRSS:\t   74620 kB\nRssAnon:\t   33456 kB\nRssFile:\t   41164 kB\n"
	tests := map[string]struct {
		text string
		want Memory
		bad  bool
	}{
		"all figures":              {text: status, want: Memory{Resident: 74620 << 10, Anonymous: 33456 << 10, Peak: 83864 << 10}},
		"process has ended: error": {text: "Name:\tfleetcontroller\nState:\tZ (zombie)\n", bad: true},
		"invalid figure: error":    {text: "VmRSS:\tmuch kB\n", bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStatus(test.text)
			if got != test.want || (err != nil) != test.bad {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestThisProcess_IsMeasured(t *testing.T) {
	m, err := MemoryOf(os.Getpid())
	if err != nil || m.Peak < m.Resident || m.Resident < m.Anonymous || m.Anonymous < 1<<16 {
		t.Errorf("memory %+v, %v", m, err)
	}
	if used, err := ProcessorTime(os.Getpid()); err != nil || used < 0 {
		t.Errorf("processor time %s, %v", used, err)
	}
	if _, err := MemoryOf(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a missing process: %v", err)
	}
	if _, err := ProcessorTime(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a missing process: %v", err)
	}
}

func TestMebibytes_AreRounded(t *testing.T) {
	for bytes, want := range map[int64]float64{157286400: 150, 1 << 19: 0.5} {
		if got := mebibytes(bytes); got != want {
			t.Errorf("%d bytes are %v MiB, want %v", bytes, got, want)
		}
	}
}

func TestMeter_MeasuresSinceItsStart(t *testing.T) {
	m := Meter{controller: os.Getpid(), simulator: os.Getpid(), at: Used{Controller: -time.Hour, Simulator: -2 * time.Hour}}
	used, err := m.Used()
	if err != nil || used.Controller < time.Hour || used.Simulator < 2*time.Hour {
		t.Errorf("used %+v, %v", used, err)
	}
	if _, err := NewMeter(os.Getpid(), 1<<30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a missing process: %v", err)
	}
}
