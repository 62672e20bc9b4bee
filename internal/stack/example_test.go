package stack_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
)

// A run: what is there is started, what is not is named, and all of it is stopped.
func Example() {
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt)
	defer done()
	s, err := stack.Start(ctx, stack.Options{Options: server.Options{
		Want: []server.Kind{server.Redis, server.ZooKeeper, server.MySQL},
		Progress: func(e server.Event) {
			fmt.Printf("%-10s %-8s %6v %s\n", e.Server, e.What, e.Took.Round(time.Millisecond), e.Detail)
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop() // also after Ctrl-C: it depends on no context

	if _, err := s.Serve(ctx, 3); err != nil {
		fmt.Println(err)
		return
	}
	front, err := s.Front(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("try: curl -X POST", front.URL+"/deduct_stock_zk")
	<-ctx.Done()
}
