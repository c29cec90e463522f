// Package deploytest holds what the tests of the delivery share. No other code imports it.
package deploytest
