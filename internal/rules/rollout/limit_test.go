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
		"count 0: one":                       {0, []*intstr.IntOrString{number(0)}, 1},
		"negative count: one":                {-1, nil, 1},
		"no setting: all":                    {7, nil, 7},
		"only nil settings: all":             {7, []*intstr.IntOrString{nil, nil}, 7},
		"several settings: first one counts": {7, []*intstr.IntOrString{nil, number(2), number(3)}, 2},
		"zero stays zero":                    {7, []*intstr.IntOrString{number(0)}, 0},
		"negative number: zero":              {7, []*intstr.IntOrString{number(-3)}, 0},
		"number above count: count":          {7, []*intstr.IntOrString{number(9)}, 7},
		"number as text: not limited":        {7, []*intstr.IntOrString{text("9")}, 9},
		"percentage: rounded down":           {57, []*intstr.IntOrString{text("10%")}, 5},
		"small percentage: at least one":     {7, []*intstr.IntOrString{text("10%")}, 1},
		"zero percent: one":                  {7, []*intstr.IntOrString{text("0%")}, 1},
		"negative percentage: one":           {7, []*intstr.IntOrString{text("-5%")}, 1},
		"more than 100 percent: all":         {7, []*intstr.IntOrString{text("250%")}, 7},
		"far more than 100 percent: all":     {7, []*intstr.IntOrString{text("1e300%")}, 7},
		"far less than zero percent: one":    {7, []*intstr.IntOrString{text("-1e300%")}, 1},
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
