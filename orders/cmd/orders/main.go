// Command orders is the order service.
package main

import (
	"context"
	"fmt"
	"os"

	"example.com/stock/orders/cmd"
)

func main() {
	err := cmd.Command().ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
	}
	os.Exit(cmd.Status(err))
}
