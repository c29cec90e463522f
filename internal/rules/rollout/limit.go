package rollout

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// ErrStrategy means that a field of a Bundle's rollout strategy is invalid. The Bundle has to be changed.
var ErrStrategy = errors.New("invalid rollout strategy")

// everything is the limit if none is set.
const everything = "100%"

// limit resolves the first setting that is not nil, or 100 %, against count. A number is limited to count. A
// percentage is rounded down, and is at least 1. A number written as text is not limited. If count is 0, the result is
// 1. Errors wrap ErrStrategy.
func limit(count int, settings ...*intstr.IntOrString) (int, error) {
	if count <= 0 {
		return 1, nil
	}
	setting := intstr.FromString(everything)
	for _, candidate := range settings {
		if candidate != nil {
			setting = *candidate
			break
		}
	}
	if setting.Type == intstr.Int {
		return min(max(setting.IntValue(), 0), count), nil
	}
	if number, err := strconv.Atoi(setting.StrVal); err == nil && number > 0 {
		return number, nil
	}
	text, isPercentage := strings.CutSuffix(setting.StrVal, "%")
	percent, err := strconv.ParseFloat(text, 64)
	if !isPercentage || err != nil || math.IsNaN(percent) || math.IsInf(percent, 0) {
		return 0, fmt.Errorf("%w: %q is neither a number nor a percentage such as \"10%%\"", ErrStrategy, setting.StrVal)
	}
	return min(max(int(math.Floor(math.Min(float64(count)*percent/100, float64(count)))), 1), count), nil
}
