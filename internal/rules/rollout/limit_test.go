package rollout

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

func number(n int32) *intstr.IntOrString {
	v := intstr.FromInt32(n)
	return &v
}

func text(s string) *intstr.IntOrString {
	v := intstr.FromString(s)
	return &v
}

func TestLimit(t *testing.T) {
	tests := map[string]struct {
		count    int
		settings []*intstr.IntOrString
		want     int
	}{
		"of nothing it is one":               {0, []*intstr.IntOrString{number(0)}, 1},
		"of less than nothing, too":          {-1, nil, 1},
		"without a setting it is all":        {7, nil, 7},
		"settings that are not there":        {7, []*intstr.IntOrString{nil, nil}, 7},
		"the first that is there counts":     {7, []*intstr.IntOrString{nil, number(2), number(3)}, 2},
		"zero stays zero":                    {7, []*intstr.IntOrString{number(0)}, 0},
		"less than zero is zero":             {7, []*intstr.IntOrString{number(-3)}, 0},
		"more than all is all":               {7, []*intstr.IntOrString{number(9)}, 7},
		"a number as text is not cut":        {7, []*intstr.IntOrString{text("9")}, 9},
		"a percentage is rounded down":       {57, []*intstr.IntOrString{text("10%")}, 5},
		"but is at least one":                {7, []*intstr.IntOrString{text("10%")}, 1},
		"of zero percent, too":               {7, []*intstr.IntOrString{text("0%")}, 1},
		"of less than zero percent, too":     {7, []*intstr.IntOrString{text("-5%")}, 1},
		"more than all percent are all":      {7, []*intstr.IntOrString{text("250%")}, 7},
		"far more than all percent are all":  {7, []*intstr.IntOrString{text("1e300%")}, 7},
		"far less than zero percent are one": {7, []*intstr.IntOrString{text("-1e300%")}, 1},
		"a part of a percent":                {1000, []*intstr.IntOrString{text("12.5%")}, 125},
		"a quarter of 230":                   {230, []*intstr.IntOrString{text("25%")}, 57},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := limit(test.count, test.settings...)
			if err != nil || got != test.want {
				t.Errorf("limit = %d, %v; want %d", got, err, test.want)
			}
		})
	}
	for _, nonsense := range []string{"", "ten", "10 percent", "%", "0", "-1", "x%", "NaN%", "Inf%", "10%%", "10 %"} {
		if _, err := limit(7, text(nonsense)); !errors.Is(err, ErrStrategy) {
			t.Errorf("%q: error = %v, want %v", nonsense, err, ErrStrategy)
		}
	}
}
