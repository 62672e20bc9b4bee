// Command orders is the order service.
package main

import (
	"context"
	"fmt"
	"os"

	"example.com/stock/orders/cmd"
)

// version is that of an image, where there is no repository to ask: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	err := cmd.Command(version).ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
	}
	os.Exit(cmd.Status(err))
}
