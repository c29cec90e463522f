package profiles

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

const (
	// topmost is the length of the lists.
	topmost = 10
	// passed is the part of a function's time above which it only passes on to one other function.
	passed = 0.95
)

// Function is a function with its part of the processor time.
type Function struct {
	Name string `json:"function"`
	// Flat is the time in the function itself, Cumulative includes the functions it calls.
	Flat       float64 `json:"flatPercent"`
	Cumulative float64 `json:"cumulativePercent"`
}

// Top contains the functions with most of the processor time.
type Top struct {
	// Cumulative leaves out functions that spend nearly all of their time in one function they call. Otherwise it would be
	// the list of an HTTP server's handlers around handlers.
	Cumulative []Function `json:"cumulative"`
	Flat       []Function `json:"flat"`
}

// TopOf computes the functions with most of the processor time. Recursive calls count once.
func TopOf(p *profile.Profile) Top {
	flat, cumulative := map[string]int64{}, map[string]int64{}
	calls := map[string]map[string]int64{} // from the caller to those it calls
	for _, sample := range p.Sample {
		stack, time := frames(sample), sample.Value[len(sample.Value)-1]
		seen, called := map[string]bool{}, map[[2]string]bool{}
		for i, name := range stack {
			if i == 0 {
				flat[name] += time
			} else if call := [2]string{name, stack[i-1]}; !called[call] && name != stack[i-1] {
				called[call] = true
				if calls[name] == nil {
					calls[name] = map[string]int64{}
				}
				calls[name][stack[i-1]] += time
			}
			if !seen[name] {
				seen[name] = true
				cumulative[name] += time
			}
		}
	}
	passes := func(name string) bool {
		return float64(slices.Max(append(slices.Collect(maps.Values(calls[name])), 0))) > passed*float64(cumulative[name])
	}
	all := make([]Function, 0, len(cumulative))
	for name := range cumulative {
		all = append(all, Function{Name: name, Flat: percent(flat[name], total(p)), Cumulative: percent(cumulative[name], total(p))})
	}
	ordered := func(value func(Function) float64) []Function {
		return slices.SortedFunc(slices.Values(all), func(a, b Function) int {
			return cmp.Or(cmp.Compare(value(b), value(a)), cmp.Compare(a.Name, b.Name))
		})
	}
	top := Top{
		Flat:       ordered(func(f Function) float64 { return f.Flat }),
		Cumulative: slices.DeleteFunc(ordered(func(f Function) float64 { return f.Cumulative }), func(f Function) bool { return passes(f.Name) }),
	}
	top.Flat, top.Cumulative = top.Flat[:min(topmost, len(top.Flat))], top.Cumulative[:min(topmost, len(top.Cumulative))]
	return top
}

// frames returns the functions of a sample, each before its caller.
func frames(sample *profile.Sample) (names []string) {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

func total(p *profile.Profile) (sum int64) {
	for _, sample := range p.Sample {
		sum += sample.Value[len(sample.Value)-1]
	}
	return sum
}

// String returns the profile as a table.
func (p Profile) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %.1f s of processor time, %s", p.Process, p.Seconds, p.File)
	for _, list := range []struct {
		title     string
		functions []Function
	}{{"with the functions it calls", p.Cumulative}, {"itself", p.Flat}} {
		fmt.Fprintf(&text, "\n    flat%%     cum%%  function, by the time of a function %s", list.title)
		for _, f := range list.functions {
			fmt.Fprintf(&text, "\n  %7.2f  %7.2f  %s", f.Flat, f.Cumulative, f.Name)
		}
	}
	return text.String()
}

func percent(part, of int64) float64 { return rounded(100 * float64(part) / float64(max(of, 1))) }

func rounded(value float64) float64 { return math.Round(value*100) / 100 }
