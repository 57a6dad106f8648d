#!/usr/bin/env escript
%%! +S 1:1 -noinput
%% Plays crash scripts against OTP's own supervisors and prints, for each, what was started and stopped, in order.
%%
%% The argument is a file of terms {Tree, Fails, Steps}; one line is printed for each. There is one scheduler, and the
%% tree runs at high priority: whenever this program runs, the tree waits.
-module(play).
-mode(compile).
-export([main/1, init/1, start_agent/1, log/2]).

main([File]) ->
    logger:remove_handler(default),
    ok = logger:add_handler(play, ?MODULE, #{}),
    {ok, Cases} = file:consult(File),
    ets:new(events, [named_table, public, ordered_set]),
    ets:new(pids, [named_table, public]),
    ets:new(fails, [named_table, public]),
    process_flag(trap_exit, true),
    [io:put_chars([play(Case), $\n]) || Case <- Cases].

play({Tree, Fails, Steps}) ->
    [ets:delete_all_objects(Table) || Table <- [events, pids, fails]],
    ets:insert(fails, Fails),
    {sup, Root, _, _, _, _} = Tree,
    case supervisor:start_link(?MODULE, Tree) of
        {ok, Pid} ->
            settle(),
            [step(Step) || Step <- Steps],
            note($|, ''),
            case is_process_alive(Pid) of
                true -> exit(Pid, shutdown);
                false -> note($x, Root)
            end,
            receive {'EXIT', Pid, _} -> ok end;
        {error, _} ->
            receive {'EXIT', _, _} -> ok after 0 -> ok end,
            note($x, Root)
    end,
    lists:join($ , [[Kind, atom_to_list(Name)] || {_, Kind, Name} <- ets:tab2list(events)]).

step(Step) ->
    note($|, ''),
    act(Step),
    settle().

act({fail, Name, Count}) -> ets:insert(fails, {Name, Count});
act({exits, Exits}) ->
    erlang:yield(), % a whole slice: the exits happen at once
    [Pid ! {exit, Reason} || {Name, Reason} <- Exits, {_, Pid} <- ets:lookup(pids, Name)];
act({terminate, Sup, Name}) ->
    [{_, Pid}] = ets:lookup(pids, Sup),
    case is_process_alive(Pid) of
        true -> supervisor:terminate_child(Pid, Name);
        false -> ok
    end.

%% Wait until nothing else can run.
settle() -> settle(3).
settle(0) -> ok;
settle(Quiet) ->
    erlang:yield(),
    case erlang:statistics(run_queue) of
        0 -> settle(Quiet - 1);
        _ -> settle(3)
    end.

note(Kind, Name) -> ets:insert(events, {ets:info(events, size), Kind, Name}).

init({sup, Name, Strategy, Intensity, _Restart, Children}) ->
    process_flag(priority, high),
    ets:insert(pids, {Name, self()}),
    note($+, Name),
    {ok, {#{strategy => Strategy, intensity => Intensity, period => 3600}, [spec(Child) || Child <- Children]}}.

spec({sup, Name, _, _, Restart, _} = Tree) ->
    #{id => Name, start => {supervisor, start_link, [?MODULE, Tree]}, restart => Restart, type => supervisor};
spec({agent, Name, Restart}) ->
    #{id => Name, start => {?MODULE, start_agent, [Name]}, restart => Restart}.

start_agent(Name) ->
    case ets:lookup(fails, Name) of
        [{_, Count}] when Count > 0 ->
            ets:insert(fails, {Name, Count - 1}),
            note($!, Name),
            {error, boom};
        _ ->
            note($+, Name),
            Self = self(),
            Begin = fun() -> process_flag(trap_exit, true), Self ! {begun, self()}, loop(Name) end,
            Pid = spawn_opt(Begin, [link, {priority, high}]),
            receive {begun, Pid} -> ok end,
            ets:insert(pids, {Name, Pid}),
            {ok, Pid}
    end.

loop(Name) ->
    receive
        {exit, Reason} -> exit(Reason);
        {'EXIT', _, Reason} -> note($-, Name), exit(Reason)
    end.

%% Called in the process that logs: a supervisor.
log(#{msg := {report, #{label := {supervisor, shutdown}, report := Report}}}, _) ->
    case proplists:get_value(reason, Report) of
        reached_max_restart_intensity -> [note($g, Name) || {Name, Pid} <- ets:tab2list(pids), Pid =:= self()];
        _ -> ok
    end;
log(_, _) -> ok.
