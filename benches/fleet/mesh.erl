%% A node of a mesh that is measured: does what it is told on its input, and says when things happened, in microseconds.
-module(mesh).
-export([start/0]).

start() ->
    Main = self(),
    [All] = init:get_plain_arguments(),
    {ok, _} = pg:start(fleet),
    ok = net_kernel:monitor_nodes(true),
    {_Watch, _Groups} = pg:monitor_scope(fleet),
    spawn_link(fun() -> read(Main) end),
    say("ready"),
    loop(list_to_integer(All)).

%% Whoever started it is gone when there is nothing to read any more.
read(Main) ->
    case io:get_line("") of
        eof -> halt();
        Line -> Main ! {line, string:trim(Line)}, read(Main)
    end.

say(What) -> io:format("~s ~b ~b~n", [What, os:system_time(microsecond), length(nodes())]).

loop(All) ->
    receive
        {nodeup, _} -> length(nodes()) =:= All - 1 andalso say("full");
        {line, "connect"} ->
            say("connect"),
            %% The others hear of each other by `global`, as in every cluster that is not told otherwise.
            spawn(fun() -> [net_kernel:connect_node(name(Number)) || Number <- lists:seq(2, All)] end);
        {line, "count"} -> say("count");
        {line, "join"} -> say("join"), ok = pg:join(fleet, servers, self());
        {line, "leave"} -> pg:leave(fleet, servers, self());
        {_, join, servers, _} -> say("seen");
        _ -> ok
    end,
    loop(All).

name(Number) -> list_to_atom("n" ++ integer_to_list(Number) ++ "@127.0.0.1").
