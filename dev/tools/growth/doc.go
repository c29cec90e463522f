// Command growth draws the growth curve that `make bench N=10000` writes as JSON.
//
//	growth.json ─► read ─► render: a panel for the rate, one for processor time, one for memory ─► growth.svg
//
// The horizontal axis is the number of registered clusters, so a hub whose costs do not grow shows horizontal lines.
package main
